"""Body budget: how much memory the bodies of requests may take, per user and in all."""

from collections import Counter

from starlette.types import Scope

from tgpu.api.problems import ProblemError

FREE_BYTES = 64 * 1024
"""Of each body; not counted, so that small requests are served when large ones are refused."""
PER_USER_BYTES = 64 * 1024 * 1024
TOTAL_BYTES = 256 * 1024 * 1024
_MIB = 1024 * 1024
_KEY = "tgpu.body"
_AGAIN = {"Retry-After": "2", "Connection": "close"}


class BodyBudget:
    """One for all requests of a server."""

    def __init__(self, per_user: int = PER_USER_BYTES, total: int = TOTAL_BYTES) -> None:
        self._per_user, self._total = per_user, total
        self._used: Counter[str] = Counter()

    def open(self, scope: Scope, user: str) -> "BodyShare":
        """The share of this request; the caller closes it when the request has been answered."""
        share = BodyShare(self, user)
        scope[_KEY] = share  # our own key
        return share

    @property
    def used(self) -> int:
        return self._used.total()

    def take(self, user: str, size: int) -> None:
        """Raises ProblemError."""
        if self._used[user] + size > self._per_user:
            raise ProblemError(
                429,
                "too-much-at-once",
                f"the requests of one user may have {self._per_user // _MIB} MiB together at a time; wait "
                "for earlier ones to be answered, or send less at once",
                headers=_AGAIN,
            )
        if self.used + size > self._total:
            raise ProblemError(
                503,
                "too-much-at-once",
                f"large requests hold {self.used // _MIB} MiB of {self._total // _MIB}; try again shortly",
                headers=_AGAIN,
            )
        self._used[user] += size

    def give_back(self, user: str, size: int) -> None:
        self._used[user] -= size
        if self._used[user] <= 0:
            del self._used[user]


class BodyShare:
    """What one request holds of the budget."""

    def __init__(self, budget: BodyBudget, user: str) -> None:
        self._budget, self._user = budget, user
        self._taken = 0

    def grow_to(self, size: int) -> None:
        """The body has `size` bytes by now, or will have. Raises ProblemError."""
        more = size - FREE_BYTES - self._taken
        if more > 0:
            self._budget.take(self._user, more)
            self._taken += more

    def close(self) -> None:
        if self._taken:
            self._budget.give_back(self._user, self._taken)
            self._taken = 0


def share_of(scope: Scope) -> BodyShare:
    share: BodyShare = scope[_KEY]  # set by the gate
    return share
