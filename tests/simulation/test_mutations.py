"""A simulator that cannot fail proves nothing: what is broken on purpose, the right checker finds."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import pytest

from tgpu.agent import machine as agent_machine
from tgpu.agent.shell import Agent
from tgpu.control import committer, gangs, losses, outcome
from tgpu.control.agent_session import Session
from tgpu.control.leadership import Leadership
from tgpu.control.loop import Control
from tgpu.control.losses import Losses
from tgpu.control.orders import OrderBook
from tgpu.control.turn import Turn
from tgpu.core.columns.node_columns import NodeColumns
from tgpu.core.columns.table import Table
from tgpu.core.engine import PLAIN, plain_with
from tgpu.core.holdings import Holding
from tgpu.core.kernel.shapes import Ints
from tgpu.core.picture import Picture
from tgpu.core.plan import Plan, Preempt
from tgpu.core.policy import OnGpuFailure
from tgpu.domain.job import Event, Exit, JobSpec, Request, TaskBrief
from tgpu.domain.lifecycle import Cause, Happening, Status
from tgpu.domain.node import Capacity
from tgpu.protocol.messages import Acknowledge, Launch
from tgpu.runner.port import LaunchSpec
from tgpu.sim import run, tenants, workload
from tgpu.sim import store as sim_store
from tgpu.sim.faults import Faults
from tgpu.sim.machine import Machine
from tgpu.sim.run import simulate
from tgpu.sim.runner import SimRunner
from tgpu.sim.store import SimStore
from tgpu.sim.world import World
from tgpu.store import tenancy
from tgpu.store.account import Account
from tgpu.store.book import Lineage
from tgpu.store.memory_state import State
from tgpu.store.port import Batch, IdempotencyKey, Receipt, Store, Submitted

MOST_SEEDS = 300
Patch = pytest.MonkeyPatch


def storms(patch: Patch, *kinds: str) -> None:
    """Nothing else goes wrong, all the time: a story in which it matters is near."""
    original = Faults.__init__

    def only_these(self: Faults, world: World, random: Random) -> None:
        original(self, world, random)
        self._kinds = [getattr(self, kind) for kind in kinds]

    patch.setattr(Faults, "__init__", only_these)
    patch.setattr(Faults, "lose_a_node", Faults.storm)
    patch.setattr(run, "happens", lambda *_: False)


def losses_of_nodes(patch: Patch) -> None:
    """And nothing besides."""
    patch.setattr(Faults, "storm", Faults.lose_a_node)
    patch.setattr(run, "happens", lambda *_: False)


def cuts_while_all_run_once(patch: Patch) -> None:
    """Nodes come and go, and every job minds."""
    original = workload.job_spec
    patch.setattr(workload, "job_spec", lambda *about: replace(original(*about), once=True))
    patch.setattr(run, "happens", lambda *_: True)


def cuts(patch: Patch) -> None:
    """Nodes come and go."""
    patch.setattr(run, "happens", lambda *_: True)


def nothing_but_gangs(patch: Patch) -> None:
    original = workload.job_spec

    def job_spec(random: Random, user: str, capacities: Sequence[Capacity]) -> JobSpec:
        groups, gang = workload.gang_of(random, capacities)
        return replace(original(random, user, capacities), groups=groups, gang=gang)

    patch.setattr(workload, "job_spec", job_spec)


def moves_while_nodes_come_and_go(patch: Patch) -> None:
    """Everybody is of the tenant that is moved, as often as anything is changed."""
    cuts(patch)
    patch.setattr(tenants, "happens", lambda *_: True)
    patch.setattr(workload, "TENANTS", tenants.MOVED)


def an_agent_that_launches_what_it_is_told_twice(patch: Patch) -> None:
    def launch(self: agent_machine.Machine, order: Launch, now: float) -> list[agent_machine.Instruction]:
        self.attempts[order.attempt] = agent_machine.Known(agent_machine.Phase.STARTING, since=now)
        return [agent_machine.LaunchTask(order)]

    def run(self: SimRunner, spec: LaunchSpec) -> None:
        self._known[spec.attempt] = False
        self._machine.order(spec)

    patch.setattr(agent_machine.Machine, "_launch", launch)
    patch.setattr(SimRunner, "launch", run)


def an_agent_that_says_hello_before_it_has_looked(patch: Patch) -> None:
    original = Agent.__init__

    def without_lock(self: Agent, **parts: Any) -> None:
        original(self, **parts)
        self._opening = nullcontext()  # type: ignore[assignment]

    patch.setattr(Agent, "__init__", without_lock)


def an_agent_that_follows_any_epoch(patch: Patch) -> None:
    """And a server that does not notice by itself that another one leads: only its writes are refused."""

    async def keep(_self: Leadership, _epoch: int, _renewed: float) -> None:
        await asyncio.get_running_loop().create_future()

    patch.setattr(Leadership, "_keep", keep)
    patch.setattr(Agent, "_epoch", property(lambda _self: 0, lambda _self, _epoch: None), raising=False)


def a_control_that_acknowledges_before_it_commits(patch: Patch) -> None:
    original = Control._commit

    async def commit(self: Control, turn: Turn) -> Receipt | None:
        for node_id, session, seq in turn.acknowledgements:
            self._hub.send(node_id, Acknowledge(session=session, seq=seq))
        return await original(self, turn)

    patch.setattr(Control, "_commit", commit)


def a_control_that_gives_orders_before_it_commits(patch: Patch) -> None:
    original = Control._commit

    async def commit(self: Control, turn: Turn) -> Receipt | None:
        for assigned in turn.batch.assigned:
            placed, job = (
                self.picture.live(assigned.attempt_id),
                await self._store.job(assigned.attempt_id.job_id),
            )
            assert placed is not None
            assert job is not None
            self._orders.launch(placed, job.spec, 0.0)
        self._orders.send()
        return await original(self, turn)

    patch.setattr(Control, "_commit", commit)


def a_committer_that_keeps_what_was_refused(patch: Patch) -> None:
    async def commit(store: Store, epoch: int, _picture: Picture, turn: Turn) -> Receipt:
        receipt = await store.commit(epoch, turn.batch)
        turn.batch.assigned = [it for it in turn.batch.assigned if it not in receipt.refused]
        return receipt

    patch.setattr(committer, "commit", commit)


def a_committer_that_forgets_the_claim(patch: Patch) -> None:
    patch.setattr(Picture, "preempt", lambda _self, _preempt: None)


def a_committer_that_never_starts_who_has_a_claim(patch: Patch) -> None:
    original = committer.assume

    def assume(picture: Picture, made: Plan, turn: Turn) -> None:
        starts = tuple(start for start in made.starts if start.task_id not in picture.claims)
        original(picture, replace(made, starts=starts), turn)

    patch.setattr(committer, "assume", assume)


def a_committer_that_does_not_say_for_whom(patch: Patch) -> None:
    original = committer._make_way

    def make_way(picture: Picture, preempt: Preempt, turn: Turn) -> None:
        original(picture, preempt, turn)
        turn.batch.stop_ordered = [
            replace(stop, by="the scheduler") if stop.cause is Cause.PREEMPTED else stop
            for stop in turn.batch.stop_ordered
        ]

    patch.setattr(committer, "_make_way", make_way)


def a_planner_that_does_not_count_gpus(patch: Patch) -> None:
    original = NodeColumns.move

    def move(self: NodeColumns, row: int, need: Ints, _devices: int, milli: int, sign: int) -> None:
        original(self, row, need, 0, milli, sign)

    patch.setattr(NodeColumns, "move", move)
    patch.setattr(committer, "violations", lambda _picture, _nodes: [])


def a_loss_that_comes_too_early(patch: Patch) -> None:
    original = Losses.__init__
    patch.setattr(Losses, "__init__", lambda self, silent_s: original(self, silent_s / 2))


def a_loss_that_never_comes(patch: Patch) -> None:
    patch.setattr(losses, "lose", lambda *_, **__: None)


def a_return_after_which_both_go_on(patch: Patch) -> None:
    patch.setattr(OrderBook, "stop_left_behind", lambda *_: None)


def a_return_whose_room_is_given_away(patch: Patch) -> None:
    """Its attempt is known, and takes nothing."""

    def keep(self: Table, holding: Holding) -> None:
        original(self, replace(holding, request=Request(0, 0, 0, 0), devices=()))
        self.holdings[holding.attempt_id] = holding

    original = Table.keep
    patch.setattr(Table, "keep", keep)
    patch.setattr(committer, "violations", lambda _picture, _nodes: [])


def a_supervisor_that_does_not_freeze(patch: Patch) -> None:
    patch.setattr(Machine, "_is_heard", lambda _self: True)


def a_leader_that_acknowledges_heartbeats_before_it_knows_the_node(patch: Patch) -> None:
    patch.setattr(
        Session, "settled", property(lambda _self: True, lambda _self, _settled: None), raising=False
    )


def an_outcome_that_calls_every_exit_a_success(patch: Patch) -> None:
    def happening(_how: Exit, _task: TaskBrief, *_: OnGpuFailure) -> Happening:
        return Happening.SUCCEEDED

    patch.setattr(outcome, "happening", happening)


def an_outcome_that_calls_a_preemption_a_failure(patch: Patch) -> None:
    original = outcome.happening

    def happening(how: Exit, task: TaskBrief, *_: OnGpuFailure) -> Happening:
        happened = original(how, task)
        return Happening.FAILED if happened is Happening.PREEMPTED else happened

    patch.setattr(outcome, "happening", happening)


def an_outcome_that_tries_again_whatever_the_job_says(patch: Patch) -> None:
    original = outcome.happening

    def happening(how: Exit, task: TaskBrief, *_: OnGpuFailure) -> Happening:
        return original(how, replace(task, requeue=True))

    patch.setattr(outcome, "happening", happening)


def an_agent_that_does_not_wait_for_the_rest_of_a_gang(patch: Patch) -> None:
    original = agent_machine.Machine._launch

    def launch(self: agent_machine.Machine, order: Launch, now: float) -> list[agent_machine.Instruction]:
        return original(self, msgspec.structs.replace(order, gang=None), now)

    patch.setattr(agent_machine.Machine, "_launch", launch)


def a_control_that_lets_the_rest_of_a_broken_gang_run_on(patch: Patch) -> None:
    patch.setattr(gangs, "left", lambda *_: None)


def a_store_without_a_fence(patch: Patch) -> None:
    original = sim_store.commit

    def commit(state: State, _epoch: int, batch: Batch) -> Receipt:
        return original(state, state.epoch, batch)

    patch.setattr(sim_store, "commit", commit)


def a_store_that_never_gives_quota_back(patch: Patch) -> None:
    patch.setattr(Lineage, "_release", lambda *_: None)


def a_store_that_admits_beyond_the_limit(patch: Patch) -> None:
    patch.setattr(Account, "without_room", lambda *_: None)
    patch.setattr(Account, "without_burst", lambda *_: None)


def a_store_and_a_planner_that_run_more_tasks_than_they_may(patch: Patch) -> None:
    patch.setattr(Account, "may_start", lambda *_: True)
    patch.setattr(PLAIN, "fill", plain_with({"short_of": lambda *_: -1}).fill)


def a_store_that_forgets_that_a_task_has_left_its_node(patch: Patch) -> None:
    original = Lineage.part

    def part(self: Lineage, *about: Any, **more: Any) -> None:
        original(self, *about, **more)
        for account in self.levels:
            account.running += 1

    patch.setattr(Lineage, "part", part)


def a_store_that_leaves_behind_what_was_counted_of_lost_attempts(patch: Patch) -> None:
    """Whoever is above a tenant that was moved has it taken off all the same."""
    patch.setattr(tenancy.Living, "gpu_ms", lambda self, _since_ms: self.reserved_gpu_ms)


def a_store_that_writes_down_a_start_where_there_was_none(patch: Patch) -> None:
    original = State.record

    def record(self: State, at_ms: int, kind: str, *about: Any) -> Event:
        return original(self, at_ms, Happening.STARTED if kind == Happening.ASSIGNED else kind, *about)

    patch.setattr(State, "record", record)


def a_store_that_changes_its_mind(patch: Patch) -> None:
    original = sim_store.commit

    def commit(state: State, epoch: int, batch: Batch) -> Receipt:
        for job in [job for job in state.jobs.values() if job.status is Status.FAILED]:
            state.jobs[job.job_id] = replace(job, status=Status.CANCELLED)
        return original(state, epoch, batch)

    patch.setattr(sim_store, "commit", commit)


def an_api_that_answers_before_it_has_written(patch: Patch) -> None:
    original = SimStore.submit

    async def submit(
        self: SimStore, specs: Sequence[JobSpec], at_ms: int, key: IdempotencyKey | None = None
    ) -> Submitted:
        first = len(self.state.jobs) + 1

        async def write() -> None:
            await asyncio.sleep(1)
            await original(self, specs, at_ms, key)

        asyncio.get_running_loop().create_task(write())
        return Submitted(list(range(first, first + len(specs))))

    patch.setattr(SimStore, "submit", submit)


NEEDS: dict[Callable[[Patch], None], Callable[[Patch], None]] = {
    an_agent_that_says_hello_before_it_has_looked: lambda patch: storms(
        patch, "_crash_agent", "_crash_server"
    ),
    an_agent_that_follows_any_epoch: lambda patch: storms(
        patch, "_cut_leader_off_from_the_store", "_snap", "_snap"
    ),
    a_loss_that_never_comes: losses_of_nodes,
    a_return_after_which_both_go_on: cuts,
    a_control_that_lets_the_rest_of_a_broken_gang_run_on: nothing_but_gangs,
    a_supervisor_that_does_not_freeze: cuts_while_all_run_once,
    a_leader_that_acknowledges_heartbeats_before_it_knows_the_node: cuts_while_all_run_once,
    a_store_that_leaves_behind_what_was_counted_of_lost_attempts: moves_while_nodes_come_and_go,
    a_store_without_a_fence: lambda patch: storms(patch, "_pause_leader"),
}
"""What would show only in one story of a hundred is looked for in such as make it likely."""
SHOWS_AT: dict[Callable[[Patch], None], int] = {
    an_agent_that_says_hello_before_it_has_looked: 6,
    a_control_that_acknowledges_before_it_commits: 64,
    a_control_that_lets_the_rest_of_a_broken_gang_run_on: 19,
    a_committer_that_keeps_what_was_refused: 6,
    a_leader_that_acknowledges_heartbeats_before_it_knows_the_node: 21,
    a_loss_that_comes_too_early: 9,
    a_return_after_which_both_go_on: 10,
    a_return_whose_room_is_given_away: 37,
    a_store_without_a_fence: 11,
}
"""A seed at which it has shown before, and may still: the search begins there."""


@pytest.mark.parametrize(
    ("breaks", "checker"),
    [
        (an_agent_that_launches_what_it_is_told_twice, "OneLiveAttempt"),
        (an_agent_that_says_hello_before_it_has_looked, "TrueEndings"),
        (an_agent_that_follows_any_epoch, "DeposedWriteNothing"),
        (a_control_that_acknowledges_before_it_commits, "TrueEndings"),
        (a_control_that_gives_orders_before_it_commits, "NothingUncommitted"),
        (a_committer_that_keeps_what_was_refused, "PictureTellsTheTruth"),
        (a_committer_that_forgets_the_claim, "NothingPreemptedForNothing"),
        (a_committer_that_never_starts_who_has_a_claim, "NothingPreemptedForNothing"),
        (a_committer_that_does_not_say_for_whom, "NothingPreemptedForNothing"),
        (a_planner_that_does_not_count_gpus, "NothingBeyondCapacity"),
        (a_loss_that_comes_too_early, "OneLiveAttempt"),
        (a_loss_that_never_comes, "LostIsReplaced"),
        (a_return_after_which_both_go_on, "OneAttemptAfterReturn"),
        (a_return_whose_room_is_given_away, "NothingBeyondCapacity"),
        (a_supervisor_that_does_not_freeze, "OnceIsOnce"),
        (a_leader_that_acknowledges_heartbeats_before_it_knows_the_node, "OnceIsOnce"),
        (an_outcome_that_calls_every_exit_a_success, "TrueEndings"),
        (an_outcome_that_calls_a_preemption_a_failure, "PreemptedIsNeverLost"),
        (an_outcome_that_tries_again_whatever_the_job_says, "PreemptedIsNeverLost"),
        (an_agent_that_does_not_wait_for_the_rest_of_a_gang, "GangsRunWhole"),
        (a_control_that_lets_the_rest_of_a_broken_gang_run_on, "GangsRunWhole"),
        (a_store_without_a_fence, "DeposedWriteNothing"),
        (a_store_that_never_gives_quota_back, "QuotaAddsUp"),
        (a_store_that_forgets_that_a_task_has_left_its_node, "QuotaAddsUp"),
        (a_store_that_admits_beyond_the_limit, "QuotaHolds"),
        (a_store_and_a_planner_that_run_more_tasks_than_they_may, "QuotaHolds"),
        (a_store_that_leaves_behind_what_was_counted_of_lost_attempts, "HoursAreThere"),
        (a_store_that_writes_down_a_start_where_there_was_none, "OnlyLegalMoves"),
        (a_store_that_changes_its_mind, "FinalIsFinal"),
        (an_api_that_answers_before_it_has_written, "AcknowledgedIsNeverLost"),
    ],
)
def test_what_is_broken_on_purpose_is_found(
    breaks: Callable[[Patch], None], checker: str, monkeypatch: Patch
) -> None:
    breaks(monkeypatch)
    if breaks in NEEDS:
        NEEDS[breaks](monkeypatch)
    found: dict[str, int] = {}
    likely = SHOWS_AT.get(breaks, 0)
    for seed in (likely, *range(MOST_SEEDS)):
        for name, _ in simulate(seed).violations:
            found.setdefault(name, seed)
        if checker in found:
            return
    pytest.fail(f"{breaks.__name__} was not found by {checker} in {MOST_SEEDS} seeds, only by {found}")
