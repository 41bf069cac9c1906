"""A copy of a job's code, as it was when the job was submitted: by its content, and where it came from."""

import re
from dataclasses import dataclass

from tgpu.domain.quantities import BadQuantityError

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
MAX_FILES = 100_000
"""In one snapshot: whoever has more of them means something else than code."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    digest: str
    """`sha256:…` of the archive."""
    root: str
    """The directory that was copied: a task below it runs at the same place in the copy."""
    commit: str | None = None
    """What was checked out there; None: it is no Git tree, or has no commit yet."""
    dirty: bool = False
    """Whether the copy differs from that commit."""

    def place_of(self, cwd: str) -> str | None:
        """Relative to the root; None if that directory is not in the copy."""
        if cwd == self.root:
            return "."
        root = self.root.rstrip("/") + "/"
        return cwd[len(root) :] if cwd.startswith(root) else None


def checked_digest(name: str, text: str) -> str:
    """Raises BadQuantityError, whose text begins with the name."""
    if not DIGEST.fullmatch(text):
        raise BadQuantityError(
            f"{name} must be sha256: and 64 hexadecimal digits, as PUT /snapshots takes it; got {text[:80]!r}"
        )
    return text


def checked_commit(name: str, text: str) -> str:
    if not _COMMIT.fullmatch(text):
        raise BadQuantityError(f"{name} must be a whole commit id of Git, 40 or 64 digits; got {text[:80]!r}")
    return text
