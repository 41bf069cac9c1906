"""Jobs that wait for others: who may start, who never can, and who is next of a name."""

from dataclasses import replace

from tests.control.control_story import picture_with, task
from tgpu.control import wishes
from tgpu.control.deadlines import first_due
from tgpu.control.needs import Needs
from tgpu.control.parked_reasons import why_parked, with_its_end
from tgpu.control.turn import Turn
from tgpu.core.picture import Picture
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Event, TaskBrief
from tgpu.domain.lifecycle import Cause, Happening, Status
from tgpu.domain.needs import NeedKind
from tgpu.domain.retries import Retries
from tgpu.domain.timing import Timing
from tgpu.domain.views import Why
from tgpu.store.needs_port import NeedRow
from tgpu.store.port import Batch, CancelAsked, Changes, Receipt, TaskClosed

OK, NOT_OK, ANY, SINGLETON = NeedKind.OK, NeedKind.NOT_OK, NeedKind.ANY, NeedKind.SINGLETON
RUNS, WAITS = Status.RUNNING, Status.PENDING
UNMET = Timing(unmet=True)


def parked(job_id: int, name: str = "", **more: object) -> TaskBrief:
    return task(job_id, timing=UNMET, name=name, **more)


def over(*jobs: tuple[int, str], sums: dict[int, Status] | None = None) -> Receipt:
    events = [Event(seq, 1, kind, job_id, 0) for seq, (job_id, kind) in enumerate(jobs)]
    return Receipt([], events, {}, sums or {})


def settled(needs: Needs, picture: Picture, at_ms: int = 50) -> Batch:
    turn = Turn(Batch(at_ms))
    needs.settle(picture, turn)
    return turn.batch


def book(picture: Picture, *rows: NeedRow) -> Needs:
    needs = Needs()
    needs.begin(picture, rows)
    return needs


def failed(job_id: int, why: str) -> TaskClosed:
    return TaskClosed(TaskId(job_id, 0), Happening.FAILED, Cause.DEPENDENCY_FAILED, why)


def test_a_job_starts_once_the_last_that_it_needs_has_completed() -> None:
    picture = picture_with(parked(3))
    needs = book(picture, NeedRow(3, 1, OK, RUNS), NeedRow(3, 2, ANY, WAITS))
    assert needs.waits_for(3) == {1: OK, 2: ANY}
    assert not needs.heard(over((1, "succeeded")))
    assert settled(needs, picture) == Batch(50)
    assert needs.waits_for(3) == {2: ANY}
    assert needs.heard(over((2, "failed")))
    assert settled(needs, picture) == Batch(50, released=[3])
    assert picture.waiting == {TaskId(3, 0): replace(parked(3), timing=Timing(ready_ms=50))}
    assert list(picture.parked) == []


def test_what_can_never_be_met_fails_at_once_with_the_reason_and_so_do_those_behind() -> None:
    picture = picture_with(parked(2), parked(3), parked(4), parked(5))
    needs = book(
        picture,
        NeedRow(2, 1, OK, RUNS),
        NeedRow(3, 2, OK, WAITS),
        NeedRow(4, 3, NOT_OK, WAITS),
        NeedRow(5, 3, ANY, WAITS),
    )
    assert needs.heard(over((1, "failed")))
    assert settled(needs, picture) == Batch(
        50,
        released=[4, 5],
        closed=[
            failed(2, "job 1 has failed, and has to complete before this one starts"),
            failed(3, "job 2 has failed, and has to complete before this one starts"),
        ],
    )
    assert sorted(picture.waiting) == [TaskId(4, 0), TaskId(5, 0)]
    assert settled(needs, picture) == Batch(50)


def test_needs_on_jobs_that_are_over_are_decided_when_they_are_read() -> None:
    picture = picture_with(parked(4), parked(5), parked(6))
    needs = book(
        picture,
        NeedRow(4, 1, OK, Status.COMPLETED),
        NeedRow(5, 2, NOT_OK, Status.COMPLETED),
        NeedRow(6, 3, OK, None),
    )
    assert settled(needs, picture) == Batch(
        50,
        released=[4],
        closed=[
            failed(6, "job 3 is not remembered any more, and has to complete before this one starts"),
            failed(5, "job 2 has completed, and has to fail before this one starts"),
        ],
    )


def test_a_job_of_several_tasks_is_over_when_all_of_it_is() -> None:
    picture = picture_with(parked(2))
    needs = book(picture, NeedRow(2, 1, OK, RUNS))
    assert not needs.heard(over((1, "succeeded"), sums={1: Status.RUNNING}))
    assert needs.heard(over((1, "succeeded"), sums={1: Status.FAILED}))
    assert [change.task_id.job_id for change in settled(needs, picture).closed] == [2]


def test_a_job_that_is_cancelled_while_it_waits_for_others_is_closed_and_let_go_no_more() -> None:
    picture = picture_with(parked(2))
    needs = book(picture, NeedRow(2, 1, OK, RUNS))
    turn = Turn(Batch(10))
    wishes.take_in(picture, Changes(2, [], [CancelAsked(2, "bob")]), turn)
    assert [change.happening for change in turn.batch.closed] == [Happening.CANCELLED]
    needs.heard(over((1, "succeeded")))
    assert settled(needs, picture) == Batch(50)


def test_who_is_held_besides_stays_where_it_is() -> None:
    held = task(2, timing=Timing(unmet=True, held_by="ann"))
    picture = picture_with(held)
    needs = book(picture, NeedRow(2, 1, OK, RUNS))
    needs.heard(over((1, "succeeded")))
    assert settled(needs, picture) == Batch(50, released=[2])
    assert [each.timing for each in picture.parked] == [Timing(held_by="ann", ready_ms=50)]


def test_of_a_name_one_runs_at_a_time_the_oldest_first() -> None:
    others = [task(1, name="x"), task(2, name="y"), task(3, name="x", user="bob")]
    picture = picture_with(*others, parked(4, "x"), parked(5, "x"))
    needs = book(picture, NeedRow(4, 0, SINGLETON, None), NeedRow(5, 0, SINGLETON, None))
    assert settled(needs, picture) == Batch(50)
    needs.take_in(picture, Changes(9, [task(6, name="x")], []))
    assert needs.heard(over((1, "cancelled")))
    assert settled(needs, picture) == Batch(50, released=[4])
    assert not needs.heard(over((6, "succeeded")))
    assert needs.heard(over((4, "failed")))
    assert settled(needs, picture) == Batch(50, released=[5])


def test_a_singleton_with_nobody_before_it_starts_at_once() -> None:
    picture = picture_with(parked(1, "x"))
    needs = book(picture, NeedRow(1, 0, SINGLETON, None))
    assert settled(needs, picture) == Batch(50, released=[1])


def test_a_singleton_is_let_go_also_if_all_of_its_name_ended_while_nobody_waited() -> None:
    picture = picture_with(parked(1, "x"))
    needs = book(picture, NeedRow(1, 0, SINGLETON, None))
    settled(needs, picture)
    picture.remove_waiting(TaskId(1, 0))
    needs.heard(over((1, "succeeded")))
    picture.add_waiting(parked(2, "x"))
    needs.take_in(picture, Changes(9, [parked(2, "x")], [], needs=[NeedRow(2, 0, SINGLETON, None)]))
    assert settled(needs, picture) == Batch(50, released=[2])


def test_a_singleton_does_not_wait_for_a_job_that_is_called_something_else_by_now() -> None:
    picture = picture_with(task(1, name="x"), parked(2, "x"), task(3, name="y"), parked(4, "y"))
    needs = book(picture, NeedRow(2, 0, SINGLETON, None), NeedRow(4, 0, SINGLETON, None))
    assert settled(needs, picture) == Batch(50)
    changes = Changes(9, [], [], altered=[task(1, name="z"), task(3, name="x")])
    wishes.take_in(picture, changes, Turn(Batch(20)))
    needs.take_in(picture, changes)
    assert settled(needs, picture) == Batch(50, released=[2, 4])


def test_a_chain_that_breaks_is_closed_in_one_turn() -> None:
    jobs = range(2, 3000)
    picture = picture_with(*map(parked, jobs))
    needs = book(picture, *(NeedRow(job_id, job_id - 1, OK, WAITS) for job_id in jobs))
    needs.heard(over((1, "failed")))
    assert len(settled(needs, picture).closed) == len(jobs)
    assert list(picture.parked) == []


def test_a_parked_job_says_what_it_waits_for_and_what_would_change_that() -> None:
    brief = task(7, timing=Timing(unmet=True, held_by="ann", begin_ms=60_000))
    why = why_parked(brief, {4: OK, 3: OK, 5: ANY, 6: NOT_OK}, 1000)
    all_of_them = "jobs 3, 4 to complete and job 6 to fail or be cancelled and job 5 to be over"
    assert why.summary == "waits: is held by ann; `tgpu release 7` lets it start"
    assert [(reason.code, reason.text) for reason in why.reasons[1:]] == [
        ("needs", f"needs {all_of_them} first; `tgpu graph 7` draws it"),
        ("begin", "is not to start before 00:01:00 UTC; `tgpu edit 7 --without begin` lets it start now"),
    ]
    alone = why_parked(task(7, name="x", timing=UNMET), {}, 0)
    assert alone.reasons[0].text == "waits until no older job of ada is live that is called x"
    failed = why_parked(task(7, retries=Retries(limit=2), attempts=1, eligible_ms=10_000), {}, 1000)
    assert failed.summary == "waits: its last attempt failed; it is tried again in 9 s"


def test_who_waits_is_told_what_becomes_of_it_if_that_lasts() -> None:
    late = task(7, time_limit_s=60, timing=Timing(held_by="ann", deadline_ms=120_000))
    (_, deadline) = with_its_end(why_parked(late, {}, 1000), first_due(late), 1000).reasons
    assert deadline.text == (
        "fails unless it starts by 00:01:00 UTC, for its deadline; `tgpu edit 7 --deadline …` moves it"
    )
    impatient = task(7, max_wait_s=60, submitted_ms=0)
    (wait,) = with_its_end(Why(7, waiting=True, summary=""), first_due(impatient), 1000).reasons
    longer = "`tgpu edit 7 --max-wait …` gives it longer"
    assert wait.text == f"fails unless it is placed by 00:01:00 UTC; {longer}"


def test_a_series_goes_index_by_index_behind_another() -> None:
    def nth(position: int) -> TaskBrief:
        return replace(parked(2), task_id=TaskId(2, position))

    picture = picture_with(*(nth(position) for position in range(4)))
    ends = ((0, Status.COMPLETED),)
    needs = book(picture, NeedRow(2, 1, NeedKind.CORR, RUNS, ends))
    turn = Turn(Batch(50))
    assert [task.task_id.task_index for task in needs.settle(picture, turn)] == [0]
    assert turn.batch == Batch(50)
    events = [Event(1, 1, "succeeded", 1, 2), Event(2, 1, "failed", 1, 1)]
    assert needs.heard(Receipt([], events, {}, {1: Status.RUNNING}))
    assert [task.task_id.task_index for task in needs.settle(picture, turn)] == [2]
    (closed,) = turn.batch.closed
    assert (closed.task_id, closed.cause) == (TaskId(2, 1), Cause.DEPENDENCY_FAILED)
    # What never had a row there never will: its counterpart cannot start. Others are not concerned.
    never = [Event(3, 1, "failed", 1, 1), Event(4, 1, "dropped", 1, None)]
    picture.add_waiting(nth(0))
    needs.heard(Receipt([], never, {}, {1: Status.FAILED}))
    needs.settle(picture, turn)
    assert [change.task_id.task_index for change in turn.batch.closed] == [1, 3]
    assert list(picture.parked) == []


def test_a_need_that_was_met_index_by_index_stays_met_when_the_job_is_held_and_released() -> None:
    picture = picture_with(parked(2, max_wait_s=5))
    needs = book(picture, NeedRow(2, 1, NeedKind.CORR, RUNS, ((0, Status.COMPLETED),)))
    (freed,) = needs.settle(picture, Turn(Batch(50)))
    assert freed.timing == Timing(ready_ms=50)  # from then on it may wait for so long
    for timing in (Timing(unmet=True, held_by="ann"), Timing(unmet=True, ready_ms=70)):
        wishes.take_in(picture, Changes(9, [], [], altered=[task(2, timing=timing)]), Turn(Batch(70)))
    assert list(picture.waiting) == [TaskId(2, 0)]


def test_what_is_behind_a_series_that_completed_whole_is_let_go_whole() -> None:
    picture = picture_with(parked(2))
    needs = book(picture, NeedRow(2, 1, NeedKind.CORR, RUNS))
    needs.heard(Receipt([], [Event(1, 1, "succeeded", 1, 1)], {}, {1: Status.COMPLETED}))
    assert settled(needs, picture) == Batch(50, released=[2])
