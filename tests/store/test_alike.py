"""The memory store and a database do the same: random operations have the same answers on both.

Most steps are drawn from what the stores hold at the moment, so that they get far; the rest are wild.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.store.ledger_story import check_exact
from tests.store.store_story import ROOT, a_node, setting
from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.job import Exit, Group, Job, JobSpec, Request
from tgpu.domain.lifecycle import Cause, Happening, NodeState, Status
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import Admission, JobLimits, Limits, OverQuota, Period
from tgpu.domain.tenant import Tenant, Terms
from tgpu.store.access_port import Token
from tgpu.store.job_filter import JobFilter, Paging
from tgpu.store.lost import AttemptGone, AttemptLost, AttemptReturned, Superseded
from tgpu.store.memory import MemoryStore
from tgpu.store.port import (
    Assigned,
    AttemptEnded,
    Batch,
    IdempotencyKey,
    Started,
    StopOrdered,
    Store,
    TaskClosed,
)
from tgpu.store.postgres import PostgresStore
from tgpu.store.quota_port import QuotaExceededError
from tgpu.store.refusals import StoreError
from tgpu.store.sqlite import SqliteStore

STEPS = 150
TENANTS = ("default", "lab", "lab/ann", "lab/bob", "lab/bob/x", "other")
USERS = ("ann", "bob")
DAY_MS = 86_400_000
OPENING: list[tuple[object, ...]] = [
    ("claim",),
    *(("create_tenant", Tenant(tenant_id), ROOT, 1) for tenant_id in TENANTS[1:4]),
    ("create_token", Token(0, "ann", "user", "d1", "", 1, None, jobs_left=5), ROOT, 1),
    ("create_token", Token(0, "ann", "user", "d2", "", 1, None, gpu_ms_left=20_000), ROOT, 1),
]


@dataclass
class Dice:
    """Draws the next step; what it knows of the stores is refreshed before each."""

    chance: Random
    jobs: list[Job]
    tenants: list[str]
    epoch: int = 0

    def step(self) -> tuple[object, ...]:
        draw = self.chance.choices(
            (self.submit, self.commit, self.cancel, self.tenancy, self.look), (4, 12, 1, 2, 3)
        )[0]
        return draw()

    def maybe(self, value: object, probability: float = 0.3) -> object | None:
        return value if self.chance.random() < probability else None

    def some(self, most: int, draw: Callable[[], object]) -> list[object]:
        return [draw() for _ in range(self.chance.randint(0, most))]

    def job_id(self) -> int:
        """Often one that is live, and among the youngest."""
        live = [job.job_id for job in self.jobs if not job.status.is_final]
        if live and self.chance.random() < 0.9:
            return self.chance.choice(live[-6:])
        return self.chance.randint(0, len(self.jobs) + 1)

    def task_id(self) -> TaskId:
        return TaskId(self.job_id(), int(self.chance.random() < 0.05))

    def attempt_id(self, beyond: int) -> AttemptId:
        """The newest attempt of some task, or with `beyond` its next one; now and then another."""
        task_id = self.task_id()
        known = next((job.attempts for job in self.jobs if job.job_id == task_id.job_id), 0)
        return task_id.attempt(known + beyond + self.chance.choice((0,) * 12 + (-1, 1)))

    def any_attempt_id(self) -> AttemptId:
        """Some attempt of some task, old ones too."""
        task_id = self.task_id()
        known = next((job.attempts for job in self.jobs if job.job_id == task_id.job_id), 0)
        return task_id.attempt(self.chance.randint(1, known + 1))

    def cause(self) -> Cause:
        return self.chance.choice(tuple(Cause))

    def submit(self) -> tuple[object, ...]:
        key = IdempotencyKey(self.chance.choice(USERS), str(self.time() % 9), self.chance.choice("de"))
        token_id = self.maybe(self.chance.randint(1, 3))
        return ("submit", self.some(3, self.spec), self.time(), self.maybe(key), token_id)

    def spec(self) -> JobSpec:
        tenant_id = "default" if self.chance.random() < 0.3 else self.tenant_id()
        request = Request(
            500,
            64,
            8,
            self.chance.randint(0, 1500),
            self.maybe(self.chance.choice(("A100", "h100-80"))),  # type: ignore[arg-type]
            user=self.chance.choice(USERS),
            generic=self.chance.choice(((), (), (("licence", 1),))),
            gpu_memory_mib=self.chance.choice((0, 0, 4096)),
        )
        return JobSpec(
            self.chance.choice(USERS),
            (Group(("python", "train.py"), request),),
            self.chance.choice(("", "a_b", "A%B")),
            tenant_id,
            self.chance.choice((PriorityClass.DEFAULT, PriorityClass.LOW)),
            time_limit_s=self.chance.choice((None, 1, 3)),
        )

    def tenant_id(self) -> str:
        """Most often one that there is."""
        return self.chance.choice(self.tenants if self.chance.random() < 0.9 else TENANTS)

    def time(self) -> int:
        return self.chance.randint(1, 1000)

    def commit(self) -> tuple[object, ...]:
        node = a_node(self.chance.choice(("n1", "n2")), self.chance.choice(tuple(NodeState)))
        batch = Batch(
            self.time(),
            nodes=[node] if self.maybe(node, 0.1) else [],
            started=self.some(2, lambda: Started(self.attempt_id(0), self.time())),  # type: ignore[arg-type]
            returned=self.some(1, lambda: AttemptReturned(self.any_attempt_id(), self.time())),  # type: ignore[arg-type]
            superseded=self.some(1, lambda: Superseded(self.any_attempt_id(), "so")),  # type: ignore[arg-type]
            stop_ordered=self.some(1, self.order_stop),  # type: ignore[arg-type]
            ended=self.some(2, self.end),  # type: ignore[arg-type]
            lost=self.some(1, self.lose),  # type: ignore[arg-type]
            gone=self.some(1, lambda: AttemptGone(self.any_attempt_id(), self.exit())),  # type: ignore[arg-type]
            closed=[self.close()] if self.chance.random() < 0.15 else [],
            assigned=self.some(3, self.assign),  # type: ignore[arg-type]
        )
        return ("commit", self.epoch - (self.chance.random() < 0.05), batch)

    def order_stop(self) -> StopOrdered:
        return StopOrdered(self.attempt_id(0), self.cause(), self.chance.choice((None, *USERS)))

    def end(self) -> AttemptEnded:
        attempt_id = self.any_attempt_id() if self.chance.random() < 0.2 else self.attempt_id(0)
        happening = self.chance.choice(tuple(Happening))
        return AttemptEnded(attempt_id, self.exit(), happening, self.chance.choice(("", "as told")))

    def lose(self) -> AttemptLost:
        requeue = self.chance.random() < 0.9
        return AttemptLost(self.any_attempt_id(), self.exit(), requeue, self.chance.choice(("", "as told")))

    def exit(self) -> Exit:
        return Exit(
            self.cause(),
            self.chance.choice((None, 0, 3)),
            self.chance.choice((None, 9)),
            self.chance.choice(("", "as recorded")),
            self.chance.choice((None, self.time())),
            self.chance.choice((0, self.time())),
        )

    def close(self) -> TaskClosed:
        return TaskClosed(self.task_id(), self.chance.choice(tuple(Happening)), self.cause(), "so")

    def assign(self) -> Assigned:
        devices = tuple(self.chance.sample(range(4), 2))
        admission = self.chance.choice(tuple(Admission))
        return Assigned(self.attempt_id(1), "n1", devices, admission, self.chance.choice((0, 500, 5000)))

    def cancel(self) -> tuple[object, ...]:
        wish = self.chance.choice(("request_cancel", "cancel_now"))
        return (wish, self.some(3, self.job_id), self.chance.choice(USERS), self.time())

    def tenancy(self) -> tuple[object, ...]:
        # `default` stays without limits: some work must always get in.
        some = [tenant_id for tenant_id in (*TENANTS, *self.tenants) if tenant_id != "default"]
        tenant_id, version = self.chance.choice(some), self.maybe(self.chance.randint(1, 3))
        wanted = self.settings()
        draw = self.chance.choices(
            (
                ("create_tenant", Tenant(tenant_id, 2, **wanted), ROOT, self.time()),  # type: ignore[arg-type]
                ("update_tenant", tenant_id, setting(**wanted), ROOT, self.time(), version),
                ("move_tenant", tenant_id, self.chance.choice(TENANTS), ROOT, self.time()),
                ("remove_tenant", tenant_id, ROOT, self.time(), version),
                ("roll_periods", self.epoch, self.time() + self.chance.randint(0, 60) * DAY_MS),
                ("recount", self.epoch),
                ("claim",),
            ),
            (4, 8, 4, 1, 2, 2, 2),
        )
        return draw[0]

    def settings(self) -> dict[str, object]:
        def most(*amounts: int) -> int | None:
            return self.chance.choice((None, None, None, *amounts))

        lines = (("generic:licence", 2), ("gpu:a100", 2000), ("gpu:h100", 0))
        named = tuple(line for line in lines if self.chance.random() < 0.2)
        return {
            "limits": Limits(most(3000), None, most(80), most(3000, 5000), named),
            "job_limits": JobLimits(most(3, 4), most(4, 9), most(6000), self.chance.choice(tuple(Period))),
            "terms": Terms(
                over_quota=self.chance.choice((None, *OverQuota)),
                may_burst=self.chance.choice((None, True, False)),
                archived=self.chance.random() < 0.1,
            ),
        }

    def look(self) -> tuple[object, ...]:
        where = JobFilter(
            frozenset(self.some(2, lambda: self.chance.choice(tuple(Status)))),  # type: ignore[arg-type]
            frozenset(self.some(2, lambda: self.chance.choice(USERS))),  # type: ignore[arg-type]
            self.maybe(self.chance.choice(TENANTS)),  # type: ignore[arg-type]
            self.maybe(self.chance.choice(("a", "_", "%"))),  # type: ignore[arg-type]
            tuple(self.some(2, lambda: (self.job_id() - 3, self.job_id()))),  # type: ignore[arg-type]
            self.maybe(self.time()),  # type: ignore[arg-type]
            self.maybe(self.time()),  # type: ignore[arg-type]
            self.maybe(self.time()),  # type: ignore[arg-type]
        )
        paging = Paging(
            self.chance.randint(1, 9),
            self.maybe(self.job_id()),  # type: ignore[arg-type]
            self.chance.random() < 0.5,
        )
        after, most = self.chance.randint(0, 300), self.chance.randint(1, 30)
        mine = (self.maybe(self.job_id()), self.maybe(self.chance.choice(USERS)))
        return self.chance.choice(
            (("jobs", where, paging), ("changes", after, most), ("events", after, most, *mine), ("counts",))
        )


async def outcome(store: Store, step: tuple[object, ...]) -> object:
    name, *values = step
    cancel_now = partial(store.request_cancel, now=True)
    method = cancel_now if name == "cancel_now" else getattr(store, str(name))
    try:
        return await method(*values)
    except QuotaExceededError as error:
        return ("refused", str(error), error.tenant, error.dimension, error.asked)
    except StoreError as error:
        return ("refused", type(error), str(error))


async def everything(store: Store) -> dict[str, object]:
    jobs = await store.jobs(JobFilter(), Paging(10_000))
    return {
        "jobs": jobs,
        "attempts": [await store.attempts(job.job_id) for job in jobs],
        "events": await store.events(limit=10_000),
        "counts": await store.counts(),
        "times": sorted(map(repr, await store.recent_times(10_000))),
        "nodes": await store.nodes(),
        "tenants": await store.tenants(),
        "tokens": await store.tokens(),
        "world": await store.load(),
        "changes": await store.changes(0),
    }


async def play(seed: int, store: Store) -> None:
    memory = MemoryStore()
    dice = Dice(Random(seed), [], [])
    for number in range(STEPS):
        dice.jobs = await memory.jobs(JobFilter(), Paging(10_000, oldest_first=True))
        dice.tenants = [tenant.tenant_id for tenant in await memory.tenants()]
        step = OPENING[number] if number < len(OPENING) else dice.step()
        answers = [await outcome(each, step) for each in (memory, store)]
        assert answers[0] == answers[1], (number, step)
        if step == ("claim",):
            dice.epoch = answers[0]  # type: ignore[assignment]
    assert await everything(memory) == await everything(store)
    for each in (memory, store):
        await check_exact(each)
        assert await each.recount(dice.epoch) == []
    seen = {event.kind for event in await memory.events(limit=10_000)}
    assert len(seen) >= 10, "a sequence that gets nowhere proves nothing"


@pytest.mark.parametrize("seed", range(20))
async def test_sqlite_answers_as_the_memory_does(database: Path, seed: int) -> None:
    store = await SqliteStore.open(database)
    try:
        await play(seed, store)
    finally:
        await store.close()


@pytest.mark.parametrize("seed", range(20))
async def test_postgresql_answers_as_the_memory_does(postgres_url: str, seed: int) -> None:
    store = await PostgresStore.open(postgres_url)
    try:
        await play(seed, store)
    finally:
        await store.close()
