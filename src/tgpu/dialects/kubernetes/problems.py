"""What is wrong with a manifest, by the path at which it stands there."""

from collections.abc import Sequence
from typing import NamedTuple


class Refusal(NamedTuple):
    """`spec.template.spec.volumes`, and a sentence that goes on from there."""

    path: str
    words: str

    def __str__(self) -> str:
        return f"{self.path} {self.words}" if self.path else self.words


class ManifestError(ValueError):
    """The first refusal in full, and where the others stand: one line, whatever the keys are."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        first, *others = refusals
        more = f"; refused as well: {', '.join(other.path for other in others)}" if others else ""
        super().__init__("".join(char if char.isprintable() else "?" for char in f"{first}{more}"))
        self.refusals = tuple(refusals)


def refused(path: str, words: str) -> ManifestError:
    return ManifestError([Refusal(path, words)])
