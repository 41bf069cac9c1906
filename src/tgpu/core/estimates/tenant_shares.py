"""Shares and limits of tenants in a scenario: whose turn it is, and which tenants may start more tasks."""

from collections.abc import Iterable, Sequence


class TenantShares:
    """Tenants have numbers; each is charged for all tasks below it."""

    def __init__(
        self,
        lineages: Sequence[tuple[int, ...]],
        weights: Sequence[int],
        running_limits: Sequence[int | None],
    ) -> None:
        """`lineages`: by tenant, the numbers of those above it and its own, the root first."""
        self._lineages, self._weights, self._limits = lineages, weights, running_limits
        self._used: list[dict[int, float]] = [{} for _ in lineages]
        """By dimension: the part of the cluster in use."""
        self._value = [0.0] * len(lineages)
        """The weighted dominant share."""
        self._running = [0] * len(lineages)

    def copy(self) -> "TenantShares":
        made = TenantShares(self._lineages, self._weights, self._limits)
        made._used = [used.copy() for used in self._used]
        made._value, made._running = self._value.copy(), self._running.copy()
        return made

    def charge(self, tenant: int, share: Iterable[tuple[int, float]], sign: int) -> None:
        """A task takes these parts of the cluster, or gives them back."""
        for each in self._lineages[tenant]:
            used = self._used[each]
            for dimension, part in share:
                used[dimension] = used.get(dimension, 0.0) + sign * part
            self._value[each] = max(used.values(), default=0.0) / self._weights[each]
            self._running[each] += sign

    def turn(self, tenant: int) -> tuple[float, ...]:
        """The smallest comes first."""
        value = self._value
        return tuple([value[each] for each in self._lineages[tenant]])

    def may_run(self, tenant: int, tasks: int) -> bool:
        """Whether no limit on running tasks is in the way."""
        for each in self._lineages[tenant]:
            limit = self._limits[each]
            if limit is not None and self._running[each] + tasks > limit:
                return False
        return True
