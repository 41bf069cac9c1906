"""One-time secrets in memory: sign-in codes and WebSocket tickets."""

import hashlib
import secrets
import time
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
_BYTES = 16
MOST = 1024
MOST_PER_OWNER = 8


class _Issued(NamedTuple, Generic[T]):
    owner: str
    value: T
    expires: float


class OneTimeSecrets(Generic[T]):
    """Each is valid once and for a limited time, and stands for a value. Only digests are kept. A new one
    replaces the oldest of its owner, or of all, where there are too many."""

    def __init__(self, lifetime_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.lifetime_s = lifetime_s
        self._clock = clock
        self._issued: dict[bytes, _Issued[T]] = {}
        """The oldest first."""

    def issue(self, owner: str, value: T) -> str:
        """`owner`: the user or session that is limited to a number of them."""
        self._drop_expired()
        own = [digest for digest, each in self._issued.items() if each.owner == owner]
        if len(own) >= MOST_PER_OWNER:
            del self._issued[own[0]]
        elif len(self._issued) >= MOST:
            del self._issued[next(iter(self._issued))]
        secret = secrets.token_urlsafe(_BYTES)
        self._issued[_digest(secret)] = _Issued(owner, value, self._clock() + self.lifetime_s)
        return secret

    def look(self, secret: str) -> T | None:
        """The value of a valid secret, which stays valid."""
        found = self._issued.get(_digest(secret))
        return None if found is None or found.expires <= self._clock() else found.value

    def redeem(self, secret: str) -> T | None:
        """None if it is unknown, used or expired."""
        found = self._issued.pop(_digest(secret), None)
        return None if found is None or found.expires <= self._clock() else found.value

    def _drop_expired(self) -> None:
        now = self._clock()
        while self._issued:
            oldest = next(iter(self._issued))
            if self._issued[oldest].expires > now:
                return
            del self._issued[oldest]


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).digest()
