"""The language that a job came in, and what it said there that has no word of its own here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tgpu.domain.quantities import BadQuantityError

MAX_ANNOTATIONS = 64
_MOST_KEY = 400  # the path of a label in a manifest, whose name alone may have 317
_MOST_VALUE = 4096
_MOST_BYTES = 32 * 1024


class DialectName(StrEnum):
    SLURM = "slurm"
    KUBERNETES = "kubernetes"


@dataclass(frozen=True, slots=True)
class Dialect:
    """Scheduling does not look at it: it is for the job's environment, and for answers in its own words."""

    name: DialectName
    annotations: Mapping[str, str] = field(default_factory=dict)


def checked_annotations(name: str, given: Mapping[str, str]) -> Mapping[str, str]:
    if len(given) > MAX_ANNOTATIONS:
        raise BadQuantityError(f"{name} may have at most {MAX_ANNOTATIONS} entries; got {len(given)}")
    for key, value in given.items():
        if not 0 < len(key) <= _MOST_KEY or not key.isprintable():
            raise BadQuantityError(
                f"{name}: a name has 1 to {_MOST_KEY} printable characters; got {key[:80]!r}"
            )
        if len(value) > _MOST_VALUE or "\0" in value:
            raise BadQuantityError(f"{name}: {key} may have at most {_MOST_VALUE} characters, and no NUL")
    total = sum(len(key.encode()) + len(value.encode()) for key, value in given.items())
    if total > _MOST_BYTES:
        raise BadQuantityError(f"{name} may have at most {_MOST_BYTES // 1024} KiB in all; got {total} bytes")
    return dict(given)
