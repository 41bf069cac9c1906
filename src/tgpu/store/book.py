"""The rules of the ledger: what is charged, from root to leaf, when a task is accepted, starts and leaves.

A task that waits holds a place among those that wait, and, unless it is held, what it was charged for. One
that has a node counts as running, and has reserved what it may take of its tenants' GPU-hours.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tgpu.domain.charges import charged_gpu_milli
from tgpu.domain.job import Request
from tgpu.domain.priority import TERMS, PriorityClass
from tgpu.domain.quota import Admission, OverQuota, Standing
from tgpu.domain.tenant import lineage
from tgpu.store.account import Account, Charge, add, add_request
from tgpu.store.demand import Demand, Run, charge_of, charge_of_all, within_limits
from tgpu.store.port import ArchivedTenantError, UnknownTenantError
from tgpu.store.quota_port import NoBurst

WAITING = "waiting"


class NoRoomError(Exception):
    """A tenant's limit refuses a task."""

    def __init__(
        self, account: Account, dimension: str, alone: int | None = None, no_burst: NoBurst | None = None
    ) -> None:
        super().__init__(account.tenant_id, dimension)
        self.account, self.dimension, self.alone, self.no_burst = account, dimension, alone, no_burst
        """`alone`: what this one job asks, if that is more than the whole limit."""


class Charged(NamedTuple):
    """A task, as the ledger knows it."""

    request: Request
    standing: Standing
    reserved_gpu_ms: int = 0
    """While it has a node."""


def standing_put_back(standing: Standing) -> Standing:
    """Of a task that leaves its node and waits again."""
    return Standing.HELD if standing is Standing.BURST else standing


def standing_returned(standing: Standing) -> Standing:
    """Of a task that waits and goes on with an attempt that was lost: it was on the burst if it is held."""
    return Standing.BURST if standing is Standing.HELD else standing


class Lineage:
    """A tenant and everybody above it."""

    __slots__ = ("_is_open", "_limits_starts", "_may_burst", "_queues", "levels", "names")

    def __init__(self, levels: tuple[Account, ...]) -> None:
        self.levels = levels
        """Root first."""
        self.names = frozenset(name for account in levels for name in account.names)
        modes = [account.terms.over_quota for account in levels if account.terms.over_quota is not None]
        bursts = [account.terms.may_burst for account in levels if account.terms.may_burst is not None]
        self._queues = bool(modes) and modes[-1] is OverQuota.QUEUE
        self._may_burst = bursts[-1] if bursts else True
        # As almost everywhere: nothing is refused and nothing held.
        closed = any(account.limits_arrivals or account.terms.archived for account in levels)
        self._is_open = not (closed or self._queues)
        self._limits_starts = any(account.limits_starts for account in levels)

    def kept(self, request: Request) -> Request:
        """The request as its task's row has it."""
        return within_limits(request, self.names) if self.names else request

    def accept(
        self,
        asked: Sequence[Demand],
        priority_class: PriorityClass,
        *,
        known: bool = False,
        apart: bool = False,
    ) -> Standing:
        """The tasks of a job that is submitted, all of them alike. Raises NoRoomError or ArchivedTenantError,
        and changes nothing then. `known`: others of it were accepted before, and an archive is no matter.
        `apart`: each starts by itself, so that those that are held need no room for all of them at once."""
        tasks = sum(number for _, number in asked)
        if self._is_open:
            for account in self.levels:
                account.waiting += tasks
                for request, number in asked:
                    add_request(account, request, number)
            return Standing.CHARGED
        charges = [(account, charge_of_all(asked, account.names)) for account in self.levels]
        at_once = self._at_once(asked, apart=apart)
        for account in self.levels:
            if account.terms.archived and not known:
                raise ArchivedTenantError(
                    f"tenant {account.tenant_id!r} is archived and takes no new jobs: submit to another one, "
                    f"or have it taken out of the archive"
                )
            charge = charge_of_all(at_once, account.names)
            if (dimension := account.beyond_limit(charge)) is not None:
                raise NoRoomError(account, dimension, charge[dimension])
            if not account.may_wait(tasks):
                raise NoRoomError(account, WAITING)
        standing = self._standing(charges, priority_class)
        for account, charge in charges:
            account.waiting += tasks
            account.guards.waiting = True
            if standing is Standing.CHARGED:
                add(account.used, charge)
                account.guards.amounts = True
        return standing

    def _at_once(self, asked: Sequence[Demand], *, apart: bool) -> Sequence[Demand]:
        """What there must be room for at one time, if ever they are to start."""
        return [(request, 1) for request, _ in asked] if apart and self._queues else asked

    def _standing(self, charges: list[tuple[Account, Charge]], priority_class: PriorityClass) -> Standing:
        if self._queues:
            return Standing.HELD
        for account, charge in charges:
            if (dimension := account.without_room(charge)) is not None:
                no_burst = _no_burst(charges, priority_class)
                if self._may_burst and no_burst is None:
                    return Standing.HELD
                raise NoRoomError(account, dimension, no_burst=no_burst if self._may_burst else None)
        return Standing.CHARGED

    def recharge(
        self,
        before: Sequence[Charged],
        asked: Sequence[Demand],
        priority_class: PriorityClass,
        *,
        apart: bool = False,
    ) -> Standing | None:
        """The tasks of a job that waits ask for something else from now on: how all of them stand then. None:
        each as it did, for they ask for no more of anything; no limit is asked then. Raises NoRoomError, and
        changes nothing then. `apart`: as `accept` has it."""
        for task in before:
            self._release(task.request, task.standing)
        charges = [(account, charge_of_all(asked, account.names)) for account in self.levels]
        if all(_is_within(charge, before, account.names) for account, charge in charges):
            self._charge_as_before(before, asked)
            return None
        try:
            self._check_alone(self._at_once(asked, apart=apart))
            standing = Standing.CHARGED if self._is_open else self._standing(charges, priority_class)
        except NoRoomError:
            for task in before:
                self._charge(task.request, task.standing)
            raise
        for account, charge in charges if standing is Standing.CHARGED else ():
            add(account.used, charge)
            account.guards.amounts = True
        return standing

    def _check_alone(self, at_once: Sequence[Demand]) -> None:
        """Whether it could ever start. Raises NoRoomError."""
        for account in self.levels:
            charge = charge_of_all(at_once, account.names)
            if (dimension := account.beyond_limit(charge)) is not None:
                raise NoRoomError(account, dimension, charge[dimension])

    def _charge_as_before(self, before: Sequence[Charged], asked: Sequence[Demand]) -> None:
        """Group by group, in the order of the tasks."""
        requests = (request for request, number in asked for _ in range(number))
        for task, request in zip(before, requests, strict=True):
            self._charge(request, task.standing)

    def withdraw(self, asked: Sequence[Demand], standing: Standing) -> None:
        """Takes back `accept`."""
        for request, number in asked:
            for account in self.levels:
                account.waiting -= number
            self._release(request, standing, number)

    def assign(self, task: Charged, admission: Admission, reserve_gpu_ms: int) -> Standing | None:
        """A task that waits gets a node: how it stands then, or None if a limit refuses it."""
        if self._limits_starts and not all(account.may_start(reserve_gpu_ms) for account in self.levels):
            return None
        standing = task.standing
        if standing is Standing.HELD:
            admitted = self._admitted(task.request, admission)
            if admitted is None:
                return None
            standing = admitted
        for account in self.levels:
            account.waiting -= 1
            account.running += 1
            account.gpu_ms += reserve_gpu_ms
            account.guards.running = True
            account.guards.gpu_ms |= reserve_gpu_ms > 0
        return standing

    def unassign(self, task: Charged, standing: Standing, reserve_gpu_ms: int) -> None:
        """Takes back `assign`, by which it stood like this: others of its gang were refused."""
        for account in self.levels:
            account.waiting += 1
            account.running -= 1
            account.gpu_ms -= reserve_gpu_ms
        if task.standing is Standing.HELD:
            for account, charge in self._charges(task.request):
                add(account.burst if standing is Standing.BURST else account.used, charge, -1)

    def _admitted(self, request: Request, admission: Admission) -> Standing | None:
        """Charges what was held, if there is room in the way that was decided."""
        charges = self._charges(request)
        burst = admission is Admission.BURST
        if admission is Admission.CHARGED or (burst and not self._may_burst):
            return None
        lacks = Account.without_burst if burst else Account.without_room
        if any(lacks(account, charge) for account, charge in charges):
            return None
        for account, charge in charges:
            add(account.burst if burst else account.used, charge)
            account.guards.amounts = True
        return Standing.BURST if burst else Standing.CHARGED

    def part(self, task: Charged, run: Run, counted: Run | None, *, over: bool) -> None:
        """A task leaves its node, and waits again (`standing_put_back`) or is over. `counted`: the part of
        its run that was counted before, when it was lost."""
        for account in self.levels:
            account.running -= 1
            account.gpu_ms -= task.reserved_gpu_ms
        self.count(task.request, run, counted)
        if task.standing is Standing.BURST:
            for account, charge in self._charges(task.request):
                add(account.burst, charge, -1)
        if over:
            self._release(task.request, task.standing)
        else:
            for account in self.levels:
                account.waiting += 1

    def close(self, task: Charged) -> None:
        """A task that waits is over."""
        for account in self.levels:
            account.waiting -= 1
        self._release(task.request, task.standing)

    def come_back(self, task: Charged, reserve_gpu_ms: int) -> None:
        """A task that waits goes on with an attempt that was lost (`standing_returned`), whether or not there
        is room: it runs."""
        for account in self.levels:
            account.waiting -= 1
            account.running += 1
            account.gpu_ms += reserve_gpu_ms
        if task.standing is Standing.HELD:
            for account, charge in self._charges(task.request):
                account.add_unasked(charge)

    def count(self, request: Request, run: Run | None, counted: Run | None) -> None:
        """Settles what a run took of each period's GPU-hours."""
        if not charged_gpu_milli(request):
            return
        for account in self.levels:
            if run is not None:
                account.gpu_ms += run.gpu_ms(request, account.period_from_ms)
            if counted is not None:
                account.gpu_ms -= counted.gpu_ms(request, account.period_from_ms)

    def _release(self, request: Request, standing: Standing, tasks: int = 1) -> None:
        if standing is Standing.CHARGED:
            for account in self.levels:
                add_request(account, request, -tasks)

    def _charge(self, request: Request, standing: Standing) -> None:
        """On no condition."""
        if standing is Standing.CHARGED:
            for account in self.levels:
                add_request(account, request, 1)

    def _charges(self, request: Request) -> list[tuple[Account, Charge]]:
        if self.names:
            return [(account, charge_of(request, account.names)) for account in self.levels]
        charge = charge_of(request)
        return [(account, charge) for account in self.levels]


class Book:
    """The tenants of one transaction, opened as they are asked for."""

    def __init__(self, find: Callable[[str], Account | None]) -> None:
        self._find = find
        self._lineages: dict[str, Lineage] = {}

    def of(self, tenant_id: str) -> Lineage:
        """Raises UnknownTenantError for the first from the root on that there is not."""
        known = self._lineages.get(tenant_id)
        if known is None:
            known = self._lineages[tenant_id] = Lineage(tuple(map(self._account, lineage(tenant_id))))
        return known

    def _account(self, tenant_id: str) -> Account:
        account = self._find(tenant_id)
        if account is None:
            raise UnknownTenantError(tenant_id)
        return account


def _is_within(charge: Charge, before: Sequence[Charged], names: tuple[str, ...]) -> bool:
    had = charge_of_all([(task.request, 1) for task in before], names)
    return all(amount <= had.get(dimension, 0) for dimension, amount in charge.items())


def _no_burst(charges: list[tuple[Account, Charge]], priority_class: PriorityClass) -> NoBurst | None:
    """Why a job could never run on the burst, if it could not."""
    if not TERMS[priority_class].may_burst:
        return NoBurst()
    for account, charge in charges:
        if (dimension := account.beyond_burst(charge)) is not None:
            return NoBurst(account.tenant_id, dimension)
    return None
