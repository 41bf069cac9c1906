"""The key by which a job speaks for itself: its attempt's name, signed with a secret that all servers share.

It is made when the attempt is launched and kept by nobody; whoever is shown one makes it again and compares.
"""

import hmac

from tgpu.domain.ids import AttemptId

PREFIX = "tgpu-job."
SECRET_NAME = "job-keys"  # noqa: S105  what the secret is called, not what it is


class JobKeys:
    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def of(self, attempt: str) -> str:
        return f"{PREFIX}{attempt}.{self._signature(attempt)}"

    def attempt_of(self, key: str) -> AttemptId | None:
        """None if this cluster has made no such key."""
        attempt, _, signature = key.removeprefix(PREFIX).rpartition(".")
        made = self._signature(attempt).encode()
        if not (key.startswith(PREFIX) and hmac.compare_digest(signature.encode(), made)):
            return None
        return AttemptId.parse(attempt)

    def _signature(self, attempt: str) -> str:
        return hmac.digest(self._secret, attempt.encode(), "sha256").hex()
