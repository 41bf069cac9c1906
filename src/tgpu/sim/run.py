"""One run from one seed: a busy time with faults, then peace, then everything must have come to rest."""

import asyncio
import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

import structlog

from tgpu.core.picture import Picture
from tgpu.sim.chance import happens
from tgpu.sim.checkers import everyone
from tgpu.sim.faults import Faults
from tgpu.sim.loop import SimLoop, StuckError
from tgpu.sim.machine import Machine
from tgpu.sim.tenants import Administrator
from tgpu.sim.trace import Trace
from tgpu.sim.workload import User
from tgpu.sim.world import World

BEGINS_S = 86_400 - 40.0
"""Midnight comes while something goes on: then a day's GPU-hours are counted anew."""
LOOK_S = 0.5
REST_S = 2.0
"""How long nothing may be left to do before it is believed."""
PATIENCE_S = 3000.0
"""By then even the longest queue on the smallest machine has been served one by one."""


@dataclass(frozen=True, slots=True)
class Result:
    seed: int
    violations: tuple[tuple[str, str], ...]
    """(checker, what it found)"""
    trace: Trace
    jobs: int
    runs: int
    steps: int
    seconds: float
    series: bool = False
    waiting: bool = False

    def summary(self) -> str:
        if not self.violations:
            return (
                f"seed {self.seed}: {self.jobs} jobs, {self.runs} processes, {self.seconds:.0f} s simulated"
            )
        found = "\n".join(f"  {checker}: {text}" for checker, text in self.violations)
        kinds = " --series" * self.series + " --waiting" * self.waiting
        again = f"python -m tgpu.sim --seed {self.seed}{kinds} --verbose"
        return f"seed {self.seed} breaks a promise; repeat it with: {again}\n{found}"


def simulate(seed: int, *, series: bool = False, waiting: bool = False) -> Result:
    """`series`: among the jobs are some of many tasks, which users meddle with. `waiting`: some wait for
    others, for a moment or for somebody, and users hold and edit them."""
    random = Random(seed)  # noqa: S311  a seed, not a secret
    loop = SimLoop(random, BEGINS_S)
    trace = Trace(lambda: loop.time() - BEGINS_S)
    with _logging_into(trace), _no_garbage_collection():
        asyncio.set_event_loop(loop)
        try:
            world = World(loop, random, trace)
            world.facts.watchers = everyone(world)
            loop.run_until_complete(_story(world, random, series=series, waiting=waiting))
        except StuckError as error:
            world.facts.found.append(("Loop", str(error)))
        finally:
            asyncio.set_event_loop(None)
            loop.dispose()
    return Result(
        seed=seed,
        violations=tuple(world.facts.found),
        trace=trace,
        jobs=len(world.store.state.jobs),
        runs=sum(map(len, world.facts.runs.values())),
        steps=loop.steps,
        seconds=loop.time() - BEGINS_S,
        series=series,
        waiting=waiting,
    )


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A coroutine that this process abandoned earlier runs its `finally` when it is collected: on the
    simulated loop that would change the story."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


async def _story(world: World, random: Random, *, series: bool, waiting: bool) -> None:
    cuts = happens(random, 0.4)
    busy_s = 100.0 if cuts else random.choice((15.0, 30.0, 60.0))
    capacities = [machine.capacity for machine in world.machines]
    await world.begin()
    users = [
        User(
            name=name,
            random=random,
            door=world,
            facts=world.facts,
            trace=world.trace,
            capacities=capacities,
            series=series,
            waiting=waiting,
        )
        for name in ("ada", "bob", "cyd")[: random.randint(1, 3)]
    ]
    faults, admin = Faults(world, random), Administrator(random, world, world.trace)
    living = [asyncio.ensure_future(user.live(random.randint(3, 12), busy_s)) for user in users]
    living.append(asyncio.ensure_future(admin.live(random.choice((1, 3, 8)), busy_s)))
    weather = faults.cuts if cuts else random.choice((faults.storm, faults.storm, faults.lose_a_node))
    trouble = asyncio.ensure_future(weather(busy_s))
    looking = asyncio.ensure_future(_look(world))
    await asyncio.wait([trouble, looking], return_when=asyncio.FIRST_COMPLETED)
    world.facts.gone.clear()
    faults.stop()
    resting = asyncio.ensure_future(_come_to_rest(world, living, admin))
    await asyncio.wait([resting, looking], return_when=asyncio.FIRST_COMPLETED)
    if not world.facts.found:
        world.facts.look(at_rest=True)


async def _look(world: World) -> None:
    """Until something is found."""
    while not world.facts.found:
        world.facts.look()
        await asyncio.sleep(LOOK_S)


async def _come_to_rest(world: World, living: "Sequence[asyncio.Future[None]]", admin: Administrator) -> None:
    await asyncio.wait(living)
    await admin.lift_limits()
    deadline = world.loop.time() + PATIENCE_S
    quiet_since = world.loop.time()
    while world.loop.time() < deadline:
        await _let_go_on(world)
        if not _is_at_rest(world):
            quiet_since = world.loop.time() + LOOK_S
        elif world.loop.time() - quiet_since >= REST_S:
            return
        await asyncio.sleep(LOOK_S)


async def _let_go_on(world: World) -> None:
    """What is held, or still suspended: somebody who gave up waiting for an answer asked again, took it back,
    and then the first wish arrived."""
    for job in list(world.store.state.jobs.values()):
        if job.status.is_final or job.timing is None:
            continue
        if job.timing.suspended_by is not None:
            await world.store.resume(job.job_id, "nobody", world.now_ms())
        if job.timing.held_by is not None:
            await world.store.release([job.job_id], "nobody", world.now_ms())


def _is_at_rest(world: World) -> bool:
    picture = world.picture
    return (
        picture is not None
        and not world.store.state.live
        and not world.facts.live
        and not picture.table.holdings
        and all(_is_settled(machine, picture) for machine in world.machines)
    )


def _is_settled(machine: Machine, picture: Picture) -> bool:
    """Nothing is left to report, and the leader knows that it is there and what it has."""
    place = picture.places.get(machine.node_id)
    return (
        not machine.records
        and place is not None
        and place.takes_tasks
        and place.node.capacity == machine.capacity
    )


@contextmanager
def _logging_into(trace: Trace) -> Iterator[None]:
    """What the parts log is part of the story, and nobody else's business."""

    def keep(_logger: object, method: str, event: structlog.typing.EventDict) -> str:
        who = str(event.pop("part", ""))
        said = " ".join(f"{name}={value}" for name, value in event.items())
        trace.add(who, f"[{method}] {said}")
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[keep], cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**before)
