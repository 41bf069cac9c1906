"""The simulated agents in a process of their own, and the end of a pipe by which a benchmark speaks to it."""

import asyncio
import multiprocessing
import resource
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Self

import uvloop

from installation import wait_until
from simulated_agents import Fleet

_ANSWER_S = 120.0


@dataclass(frozen=True, slots=True)
class Tally:
    """How the agents stand at one moment."""

    up: int
    """Agents whose present stream's leader has acknowledged a heartbeat."""
    launched: int
    twice: list[str]
    """Attempts that were begun more than once."""
    last_launch: float
    ended: int
    live: int
    streams_lost: int
    refusals: list[str]


class _Desk:
    """In the agents' process: what can be asked of them."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def join(self, nodes: Sequence[tuple[str, str]], within_s: float) -> None:
        self._fleet.join(nodes, within_s)

    async def tally(self) -> Tally:
        seen, agents = self._fleet.seen, self._fleet.agents
        return Tally(
            up=sum(agent.is_up for agent in agents),
            launched=len(seen.launches),
            twice=[name for name, times in seen.launches.items() if times > 1],
            last_launch=seen.last_launch,
            ended=seen.ended,
            live=sum(len(agent.machine.attempts) for agent in agents),
            streams_lost=seen.streams_lost,
            refusals=seen.refusals[:5],
        )

    async def attempts(self) -> set[str]:
        """Those that were ever begun."""
        return set(self._fleet.seen.launches)

    async def launched_at(self, job_id: int) -> float:
        """When the instruction to start it came; waits for it."""
        seen = self._fleet.seen
        if job_id in seen.first_launch:
            return seen.first_launch[job_id]
        seen.waiters[job_id] = asyncio.get_running_loop().create_future()
        return await seen.waiters[job_id]

    async def all_up_at(self) -> float:
        """When the last of all agents was up again; waits for it."""
        while not all(agent.is_up for agent in self._fleet.agents):  # noqa: ASYNC110  thousands of facts
            await asyncio.sleep(0.02)
        return time.monotonic()


def _run(pipe: Connection, servers: Sequence[str], ca_pem: str | None) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    uvloop.run(_serve(pipe, servers, ca_pem))


async def _serve(pipe: Connection, servers: Sequence[str], ca_pem: str | None) -> None:
    fleet, loop, over = Fleet(servers, ca_pem), asyncio.get_running_loop(), asyncio.Event()
    beating = loop.create_task(fleet.beat_for_ever())
    threading.Thread(target=_answer, args=(pipe, _Desk(fleet), loop, over.set), daemon=True).start()
    await over.wait()
    beating.cancel()


def _answer(pipe: Connection, desk: _Desk, loop: asyncio.AbstractEventLoop, over: Callable[[], None]) -> None:
    try:
        while True:
            method, arguments = pipe.recv()
            question: Coroutine[Any, Any, Any] = getattr(desk, method)(*arguments)
            pipe.send(asyncio.run_coroutine_threadsafe(question, loop).result())
    except EOFError:  # whoever asks is gone
        loop.call_soon_threadsafe(over)


class Agents:
    """`with Agents(servers) as agents:`: the process is there inside, and all its streams end after."""

    def __init__(self, servers: Sequence[str], ca_pem: str | None = None) -> None:
        process = multiprocessing.get_context("spawn")
        self._pipe, theirs = process.Pipe()
        self._process = process.Process(target=_run, args=(theirs, tuple(servers), ca_pem), daemon=True)
        self._process.start()
        theirs.close()
        self.joined = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def join(self, nodes: Sequence[tuple[str, str]], within_s: float) -> None:
        """Returns when all agents so far are up."""
        self._ask("join", nodes, within_s)
        self.joined += len(nodes)
        wait_until(lambda: self.tally().up == self.joined, f"{self.joined} agents are up", 300, every_s=0.2)

    def tally(self) -> Tally:
        tally: Tally = self._ask("tally")
        if tally.refusals:
            raise SystemExit(f"an agent failed: {tally.refusals}")
        return tally

    def attempts(self) -> set[str]:
        attempts: set[str] = self._ask("attempts")
        return attempts

    def launched_at(self, job_id: int) -> float:
        return float(self._ask("launched_at", job_id))

    def all_up_at(self) -> float:
        return float(self._ask("all_up_at"))

    def _ask(self, method: str, *arguments: object) -> Any:  # noqa: ANN401  each method has its own answer
        self._pipe.send((method, arguments))
        if not self._pipe.poll(_ANSWER_S):
            raise SystemExit(f"the agents did not answer within {_ANSWER_S:g} s: {method}{arguments}")
        return self._pipe.recv()
