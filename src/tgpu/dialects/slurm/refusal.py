"""What is wrong with what somebody wrote, in one sentence that says what to do."""

from __future__ import annotations


class SlurmError(Exception):
    """Its text is for whoever wrote it; where it stands comes first: `job.sh line 7: --time must be …`."""

    def at(self, where: str) -> SlurmError:
        """The same, found at this place."""
        return SlurmError(f"{where}: {self}")
