"""What an agent decides: one launch at most, reports until acknowledged, orders of one session only."""

from typing import Any

import msgspec

from tgpu.agent.machine import (
    REMEMBER_S,
    REPEAT_AFTER_S,
    DropPrepared,
    ForgetTask,
    Instruction,
    LaunchTask,
    Machine,
    PrepareTask,
    SendReport,
    StopTask,
)
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.protocol.gangs import GangPlace, Go, Host, Spot
from tgpu.protocol.messages import AttemptReport, Launch, Orders, Phase, Stop
from tgpu.runner.port import HAD_BEFORE, AttemptEnded, AttemptStarted

SESSION = 7
DONE = Exit(Cause.EXITED, exit_code=0, started_ms=1000, ended_ms=2000)


def launch(attempt: str = "1.0.1") -> Launch:
    return Launch(
        attempt=attempt,
        job_name="",
        user="ada",
        command=["true"],
        cwd="/",
        env={},
        devices=(),
        cpu_milli=1000,
        memory_mib=0,
        gpu_milli=0,
        time_limit_s=None,
        grace_s=60,
    )


def orders(session: int = SESSION, **what: Any) -> Orders:
    return Orders(session=session, **what)


def connected() -> Machine:
    machine = Machine()
    machine.greeted(SESSION)
    return machine


def running(attempt: str = "1.0.1") -> Machine:
    machine = connected()
    machine.obey(orders(launches=(launch(attempt),)), 0.0)
    machine.runner_said(AttemptStarted(attempt, 1000))
    return machine


def reported(machine: Machine, now: float = 0.0) -> tuple[AttemptReport, ...]:
    sent = machine.report(now)
    return sent[0].attempts if sent and isinstance(sent[0], SendReport) else ()


def test_a_launch_is_carried_out_once_however_often_it_is_said() -> None:
    machine = connected()
    order = orders(launches=(launch(),))
    assert machine.obey(order, 0.0) == [LaunchTask(launch())]
    assert machine.obey(order, 1.0) == []
    machine.runner_said(AttemptStarted("1.0.1", 1000))
    assert machine.obey(order, 2.0) == []
    machine.runner_said(AttemptEnded("1.0.1", DONE))
    assert machine.obey(order, 3.0) == []


def test_a_repeated_launch_is_answered_with_a_report() -> None:
    machine = running()
    reported(machine)
    machine.obey(orders(launches=(launch(),)), 1.0)
    assert reported(machine) == (AttemptReport(attempt="1.0.1", phase=Phase.RUNNING, started_ms=1000),)


def test_orders_of_another_session_are_history() -> None:
    machine = running()
    stale = orders(SESSION - 1, launches=(launch("2.0.1"),), forget=("1.0.1",))
    assert machine.obey(stale, 0.0) == []
    assert list(machine.attempts) == ["1.0.1"]


def test_nothing_is_obeyed_before_a_greeting_or_after_the_stream_broke() -> None:
    machine = Machine()
    assert machine.obey(orders(launches=(launch(),)), 0.0) == []
    machine.greeted(SESSION)
    machine.disconnected()
    assert machine.obey(orders(launches=(launch(),)), 0.0) == []


def test_a_stop_reaches_what_runs_and_is_repeated_without_harm() -> None:
    machine = running()
    stop = Stop(attempt="1.0.1", cause=Cause.CANCELLED, detail="enough")
    wanted: list[Instruction] = [StopTask("1.0.1", Cause.CANCELLED, "enough")]
    assert machine.obey(orders(stops=(stop,)), 0.0) == wanted
    assert machine.obey(orders(stops=(stop,)), 0.0) == wanted


def test_a_stop_that_comes_before_its_launch_wins() -> None:
    machine = connected()
    stop = Stop(attempt="1.0.1", cause=Cause.CANCELLED)
    assert machine.obey(orders(stops=(stop,)), 0.0) == []
    assert machine.obey(orders(launches=(launch(),)), 0.0) == []
    never_ran = Exit(Cause.CANCELLED, detail="stopped before it started")
    assert reported(machine) == (AttemptReport(attempt="1.0.1", phase=Phase.ENDED, exit=never_ran),)


def test_a_stop_for_what_is_over_only_says_so_again() -> None:
    machine = running()
    machine.runner_said(AttemptEnded("1.0.1", DONE))
    reported(machine)
    stop = Stop(attempt="1.0.1", cause=Cause.CANCELLED)
    assert machine.obey(orders(stops=(stop,)), 0.0) == []
    assert reported(machine) == (
        AttemptReport(attempt="1.0.1", phase=Phase.ENDED, started_ms=1000, exit=DONE),
    )


def test_what_happened_together_is_reported_together_and_once() -> None:
    machine = connected()
    machine.obey(orders(launches=(launch("1.0.1"), launch("2.0.1"))), 0.0)
    machine.runner_said(AttemptStarted("1.0.1", 1000))
    machine.runner_said(AttemptEnded("2.0.1", DONE))
    assert machine.report(0.0) == [
        SendReport(
            1,
            (
                AttemptReport(attempt="1.0.1", phase=Phase.RUNNING, started_ms=1000),
                AttemptReport(attempt="2.0.1", phase=Phase.ENDED, started_ms=1000, exit=DONE),
            ),
        )
    ]
    assert machine.report(0.0) == []


def test_what_ended_is_forgotten_once_that_was_acknowledged_and_what_runs_is_not() -> None:
    machine = running("1.0.1")
    machine.runner_said(AttemptEnded("2.0.1", DONE))
    reported(machine)
    assert machine.acknowledged(SESSION, 1, 0.0) == [ForgetTask("2.0.1")]
    assert machine.acknowledged(SESSION, 1, 0.0) == []
    assert list(machine.attempts) == ["1.0.1"]


def test_an_acknowledgement_of_its_start_does_not_forget_what_has_ended_since() -> None:
    machine = running()
    reported(machine)
    machine.runner_said(AttemptEnded("1.0.1", DONE))
    assert machine.acknowledged(SESSION, 1, 0.0) == []
    assert list(machine.attempts) == ["1.0.1"]


def test_an_acknowledgement_of_another_session_means_nothing() -> None:
    machine = running()
    machine.runner_said(AttemptEnded("1.0.1", DONE))
    reported(machine)
    assert machine.acknowledged(SESSION - 1, 1, 0.0) == []
    assert list(machine.attempts) == ["1.0.1"]


def test_a_report_is_repeated_until_it_is_acknowledged() -> None:
    machine = running()
    first = reported(machine, now=0.0)
    machine.tick(REPEAT_AFTER_S - 0.1)
    assert machine.report(REPEAT_AFTER_S - 0.1) == []
    machine.tick(REPEAT_AFTER_S)
    assert machine.report(REPEAT_AFTER_S) == [SendReport(2, first)]
    machine.acknowledged(SESSION, 2, REPEAT_AFTER_S)
    machine.tick(10 * REPEAT_AFTER_S)
    assert machine.report(10 * REPEAT_AFTER_S) == []


def test_a_new_session_is_told_everything_anew() -> None:
    machine = running("1.0.1")
    machine.runner_said(AttemptEnded("2.0.1", DONE))
    reported(machine)
    machine.disconnected()
    everything = (
        AttemptReport(attempt="1.0.1", phase=Phase.RUNNING, started_ms=1000),
        AttemptReport(attempt="2.0.1", phase=Phase.ENDED, started_ms=1000, exit=DONE),
    )
    assert machine.greeted(SESSION + 1) == everything
    assert reported(machine) == everything


def test_what_was_here_before_the_agent_is_adopted() -> None:
    machine = Machine()
    machine.adopted([AttemptStarted("1.0.1", 1000), AttemptEnded("2.0.1", DONE)])
    assert machine.greeted(SESSION) == (
        AttemptReport(attempt="1.0.1", phase=Phase.RUNNING, started_ms=1000),
        AttemptReport(attempt="2.0.1", phase=Phase.ENDED, started_ms=1000, exit=DONE),
    )


def test_a_start_that_is_heard_after_the_end_changes_nothing() -> None:
    machine = connected()
    machine.runner_said(AttemptEnded("1.0.1", DONE))
    machine.runner_said(AttemptStarted("1.0.1", 1000))
    assert reported(machine) == (
        AttemptReport(attempt="1.0.1", phase=Phase.ENDED, started_ms=1000, exit=DONE),
    )


def test_what_the_server_has_no_use_for_is_stopped_and_then_forgotten_without_a_word() -> None:
    machine = running()
    reported(machine)
    assert machine.obey(orders(forget=("1.0.1",)), 0.0) == [
        StopTask("1.0.1", Cause.CANCELLED, "the server does not know this attempt")
    ]
    assert machine.runner_said(AttemptEnded("1.0.1", DONE), 1.0) == [ForgetTask("1.0.1")]
    assert machine.report(1.0) == []
    assert machine.attempts == {}


def test_forgetting_what_is_over_or_unknown_needs_no_stop() -> None:
    machine = running()
    machine.runner_said(AttemptEnded("1.0.1", DONE))
    assert machine.obey(orders(forget=("1.0.1", "9.0.1")), 0.0) == [ForgetTask("1.0.1")]


def test_a_launch_of_what_was_forgotten_starts_nothing_and_is_answered() -> None:
    machine = running()
    machine.runner_said(AttemptEnded("1.0.1", DONE))
    machine.obey(orders(forget=("1.0.1",)), 0.0)
    late = orders(launches=(launch(),))
    over = AttemptReport(attempt="1.0.1", phase=Phase.ENDED, exit=HAD_BEFORE)
    for moment in (1.0, REMEMBER_S - 1):
        machine.tick(moment)
        assert machine.obey(late, moment) == []
        (report,) = machine.report(moment)
        assert isinstance(report, SendReport)
        assert report.attempts == (over,)
        assert machine.acknowledged(SESSION, report.seq, moment) == [ForgetTask("1.0.1")]
        assert machine.attempts == {}


def test_a_stop_of_what_was_forgotten_is_answered_and_forgotten_again() -> None:
    machine = running()
    machine.runner_said(AttemptEnded("1.0.1", DONE))
    machine.obey(orders(forget=("1.0.1",)), 0.0)
    stop = orders(stops=(Stop(attempt="1.0.1", cause=Cause.SUPERSEDED),))
    assert machine.obey(stop, 1.0) == []
    over = AttemptReport(
        attempt="1.0.1", phase=Phase.ENDED, exit=Exit(Cause.SUPERSEDED, detail="it was over before")
    )
    (report,) = machine.report(1.0)
    assert isinstance(report, SendReport)
    assert report.attempts == (over,)
    assert machine.acknowledged(SESSION, report.seq, 1.0) == [ForgetTask("1.0.1")]
    assert machine.attempts == {}


def test_tombstones_do_not_stand_for_ever() -> None:
    machine = running()
    machine.runner_said(AttemptEnded("1.0.1", DONE))
    machine.obey(orders(forget=("1.0.1",)), 0.0)
    machine.tick(REMEMBER_S)
    assert machine._forgotten == {}


def test_a_slow_start_is_worth_a_word() -> None:
    machine = connected()
    machine.obey(orders(launches=(launch(),)), 0.0)
    assert machine.report(0.0) == []
    machine.tick(5.0)
    assert reported(machine) == (AttemptReport(attempt="1.0.1", phase=Phase.STARTING),)


PLACE = GangPlace(rank=1, size=2, local_rank=0, local_size=1, node_rank=1, nodes=2)
SPOT, MASTER = Spot(address="b", port=2), Spot(address="a", port=1)


def in_gang(attempt: str = "1.1.1") -> Launch:
    return msgspec.structs.replace(launch(attempt), gang=PLACE)


def go(attempt: str = "1.1.1") -> Go:
    return Go(attempt=attempt, master=MASTER, hosts=(Host(address="a", slots=1),))


def prepared() -> Machine:
    machine = connected()
    assert machine.obey(orders(launches=(in_gang(),)), 0.0) == [PrepareTask(in_gang())]
    assert machine.prepared("1.1.1", SPOT) == []
    return machine


def test_a_task_of_a_gang_is_prepared_says_where_it_is_and_goes_once() -> None:
    machine = prepared()
    (said,) = reported(machine)
    assert (said.phase, said.spot, said.master) == (Phase.READY, SPOT, None)
    assert machine.obey(orders(launches=(in_gang(),)), 0.0) == [], "a repeated launch changes nothing"
    assert machine.obey(orders(go=(go(),)), 0.0) == [LaunchTask(in_gang(), go())]
    assert machine.obey(orders(go=(go(),)), 0.0) == []
    machine.runner_said(AttemptStarted("1.1.1", 1000))
    (said,) = reported(machine)
    assert (said.phase, said.master) == (Phase.RUNNING, MASTER)


def test_one_that_is_ready_says_so_until_it_goes() -> None:
    machine = prepared()
    reported(machine)
    machine.tick(5.0)
    assert [said.phase for said in reported(machine, 5.0)] == [Phase.READY]


def test_one_that_is_told_to_go_before_it_is_ready_waits() -> None:
    machine = connected()
    machine.obey(orders(launches=(in_gang(),), go=(go(), go("9.9.9"))), 0.0)
    machine.prepared("1.1.1", SPOT)
    assert [said.phase for said in reported(machine)] == [Phase.READY]


def test_one_that_is_stopped_before_it_goes_has_never_run() -> None:
    machine = prepared()
    stop = Stop(attempt="1.1.1", cause=Cause.GANG_BROKEN, detail="rank 0 on n1 failed first")
    assert machine.obey(orders(stops=(stop,)), 0.0) == [DropPrepared("1.1.1")]
    (said,) = reported(machine)
    assert said.exit == Exit(Cause.GANG_BROKEN, detail="rank 0 on n1 failed first")
    assert machine.obey(orders(go=(go(),)), 0.0) == []
    assert machine.prepared("1.1.1", SPOT) == [DropPrepared("1.1.1")], "it got ready too late"


def test_one_that_cannot_be_prepared_is_over() -> None:
    machine = connected()
    machine.obey(orders(launches=(in_gang(),)), 0.0)
    machine.runner_said(AttemptEnded("1.1.1", Exit(Cause.COULD_NOT_START, detail="no image")))
    assert [said.phase for said in reported(machine)] == [Phase.ENDED]
    assert machine.obey(orders(go=(go(),)), 0.0) == []


def test_one_that_nobody_wants_is_dropped_with_what_was_prepared() -> None:
    machine = prepared()
    assert machine.obey(orders(forget=("1.1.1",)), 0.0) == [DropPrepared("1.1.1"), ForgetTask("1.1.1")]
    assert machine.attempts == {}
