"""What becomes of one field of a manifest."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    HONOURED = "honoured"
    """It means here what it means there."""
    TRANSLATED = "translated"
    """It becomes what comes nearest here, and the words say how."""
    REFUSED = "refused"
    """A manifest with it is not taken, and the words say what to do."""


@dataclass(frozen=True, slots=True)
class Field:
    verdict: Verdict
    words: str
    """Of one that is refused: how the sentence goes on that its path begins."""
    unless: tuple[object, ...] = ()
    """Of one that is refused: values that ask for nothing, and are let pass."""
    of: str | None = None
    """The table of what stands in it, or in each of a list."""
    only_one: str = ""
    """Of a list in which a second one is refused: how that sentence goes on."""


Table = dict[str, Field]


def honoured(words: str, of: str | None = None, *, only_one: str = "") -> Field:
    return Field(Verdict.HONOURED, words, of=of, only_one=only_one)


def translated(words: str, of: str | None = None) -> Field:
    return Field(Verdict.TRANSLATED, words, of=of)


def refused(words: str, *unless: object) -> Field:
    return Field(Verdict.REFUSED, words, unless)
