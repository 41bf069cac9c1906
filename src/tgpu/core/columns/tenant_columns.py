"""Tenants as rows of a tree, with what they use."""

from typing import NamedTuple

import numpy as np

from tgpu.core.columns.dimensions import Dimensions
from tgpu.core.columns.growing import with_room
from tgpu.core.kernel.shapes import Floats, Ints, Small
from tgpu.domain.tenant import Tenant, lineage

OWN = ""
"""The name under which a tenant's own tasks stand beside its children."""


class Shares(NamedTuple):
    """The first columns of `Tree`."""

    parent: Small
    first_child: Small
    children: Small
    weight: Floats
    used: Ints
    total: Ints
    past: Floats


class TenantColumns:
    """Numbers are for ever; rows are laid out anew when a tenant comes.

    Row 0 is the root above all tenants. A tenant with children has one more child, which stands for its
    own tasks: that is the row its number leads to.
    """

    def __init__(self, dimensions: Dimensions, half_life_s: int, *, remembers: bool) -> None:
        self._dimensions = dimensions
        self._half_life_ms = 1000 * half_life_s
        self._remembers = remembers
        """Whether anybody asks for past use."""
        self._numbers: dict[str, int] = {}
        self._weights: dict[str, int] = {}
        self._stale = True
        self.used = np.zeros((0, dimensions.of_tenants), dtype=np.int64)
        """By number: what the tenant's own tasks hold."""
        self._past = np.zeros((0, dimensions.of_tenants), dtype=np.float64)
        """By number: past use in amounts times ms, halved with every half-life, as of `_past_ms`."""
        self._past_ms = np.zeros(0, dtype=np.int64)
        self.layouts = 0
        """How often rows were laid out: as long as it is the same, so are they."""
        self.row_of = np.zeros(0, dtype=np.int32)
        """By number: the row of the tenant's own tasks."""
        self.top_row: dict[str, int] = {}
        """By name: the row of the tenant with everybody below."""

    def number(self, tenant_id: str) -> int:
        number = self._numbers.get(tenant_id)
        if number is None:
            for name in lineage(tenant_id):
                self._add(name)
            number = self._numbers[tenant_id]
        return number

    def set(self, tenant: Tenant) -> None:
        self.number(tenant.tenant_id)
        self._weights[tenant.tenant_id] = tenant.weight
        self._stale = True

    def charge(self, number: int, amounts: Ints, sign: int, now_ms: int) -> None:
        """Up to now it has used what it used; from now on, more or less."""
        if self._remembers:
            self._remember(number, now_ms)
        used = self.used[number]  # the row itself
        if sign > 0:
            used += amounts
        else:
            used -= amounts

    def _remember(self, number: int, now_ms: int) -> None:
        faded = 2.0 ** (-max(0, now_ms - int(self._past_ms[number])) / self._half_life_ms)
        self._past[number] = self._sum(self._past[number], self.used[number], faded)
        self._past_ms[number] = now_ms

    def _past_at(self, now_ms: int) -> Floats:
        """Exactly: what is used at a constant rate adds up while it fades."""
        faded = np.exp2(-np.maximum(0, now_ms - self._past_ms) / self._half_life_ms)[:, None]
        return self._sum(self._past, self.used, faded)

    def _sum(self, past: Floats, used: Ints, faded: Floats | float) -> Floats:
        total: Floats = past * faded + used * (self._half_life_ms / np.log(2)) * (1 - faded)
        return total

    def _add(self, name: str) -> None:
        if name not in self._numbers:
            self._numbers[name] = len(self._numbers)
            for column in ("used", "_past", "_past_ms"):
                setattr(self, column, with_room(getattr(self, column), len(self._numbers)))
            self._stale = True

    @property
    def rows(self) -> int:
        """Of the tree, with everybody there is."""
        if self._stale:
            self._lay_out()
        return len(self._parent)

    def shares(self, total: Ints, now_ms: int) -> Shares:
        """What turns are taken by. Its amounts are copies: a plan is tried on them."""
        used = np.zeros((self.rows, self._dimensions.of_tenants), dtype=np.int64)
        if self.used.any():
            used[self.row_of] = self.used[: len(self._numbers)]
            self.sum_up(used)
        return Shares(
            self._parent,
            self._first_child,
            self._children,
            self._weight,
            used,
            total,
            self._past_by_row(total, now_ms),
        )

    def _past_by_row(self, total: Ints, now_ms: int) -> Floats:
        if not self._remembers:
            return np.zeros(len(self._parent), dtype=np.float64)
        past = np.zeros((len(self._parent), self._dimensions.of_tenants), dtype=np.float64)
        past[self.row_of] = self._past_at(now_ms)[: len(self._numbers)]
        self.sum_up(past)
        shares: Floats = (past / np.maximum(total, 1)).max(axis=1)
        return shares

    def sum_up(self, amounts: Ints | Floats) -> None:
        """What rows have for themselves becomes what they have with everybody below."""
        for rows in self._levels:  # deepest first
            np.add.at(amounts, self._parent[rows], amounts[rows])

    def _lay_out(self) -> None:
        """Level by level, the children of one side by side, in the order of their names."""
        children: dict[str, list[str]] = {}
        for name in self._numbers:
            children.setdefault(name.rpartition("/")[0], []).append(name)
        names: list[tuple[str, bool]] = [("", False)]  # a name, and whether it stands for own tasks only
        parents, first, count = [-1], [0], [0]
        level_of, row = [0], 0
        while row < len(names):
            name, own = names[row]
            below = [] if own else sorted(children.get(name, ())) if row else sorted(children.get("", ()))
            if below and row:
                below = [OWN, *below]
            first[row], count[row] = len(names), len(below)
            for child in below:
                names.append((child or name, child == OWN))
                parents.append(row)
                first.append(0)
                count.append(0)
                level_of.append(level_of[row] + 1)
            row += 1
        self._keep(names, parents, first, count, level_of)

    def _keep(
        self,
        names: list[tuple[str, bool]],
        parents: list[int],
        first: list[int],
        count: list[int],
        level_of: list[int],
    ) -> None:
        rows = range(1, len(names))
        self._parent: Small = np.array(parents, dtype=np.int32)
        self._first_child: Small = np.array(first, dtype=np.int32)
        self._children: Small = np.array(count, dtype=np.int32)
        self.top_row = {names[row][0]: row for row in rows if not names[row][1]}
        self.row_of = np.zeros(len(self._numbers), dtype=np.int32)
        for row in rows:
            if names[row][1] or not count[row]:
                self.row_of[self._numbers[names[row][0]]] = row
        weights = [1.0] + [1.0 if names[r][1] else float(self._weights.get(names[r][0], 1)) for r in rows]
        self._weight: Floats = np.array(weights, dtype=np.float64)
        levels = np.array(level_of)
        self._levels = [np.flatnonzero(levels == level) for level in range(max(level_of), 0, -1)]
        self.layouts += 1
        self._stale = False
