"""Timeline of nodes: attempts of a window by node and device, and their sums if there are many."""

from dataclasses import replace

from tests.store.store_story import a_job, a_node
from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.store.job_filter import Seen
from tgpu.store.port import Assigned, AttemptEnded, Batch, Started, Store
from tgpu.store.timeline_port import LoadBin, Occupation, TimelineFilter
from tgpu.store.usage_port import GroupBy, ReportFilter, rounded_wait

HOUR = 3_600_000
FOUR = rounded_wait(4 * HOUR)
ALL = TimelineFilter(0, 100 * HOUR)
RUNS = (("ann", "n1", 0, 10, 12), ("bob", "n1", 1, 11, 14), ("ann", "n2", 0, 13, 20))
"""User, node, device, start and end in hours."""


async def filled(store: Store) -> None:
    """Three finished attempts, one that runs since hour 30 and one that is being started since hour 31."""
    epoch = await store.claim()
    specs = [a_job(user, f"job of {user}") for user, *_ in RUNS]
    specs += [a_job("ann", "runs", time_limit_s=7200), a_job("bob", "starts")]
    await store.submit(specs, 9 * HOUR)
    nodes = [replace(a_node(), node_id=name) for name in ("n1", "n2")]
    placed = [Assigned(AttemptId(at, 0, 1), run[1], (run[2],)) for at, run in enumerate(RUNS, 1)]
    await store.commit(epoch, Batch(9 * HOUR, nodes=nodes, assigned=placed))
    ended = [
        AttemptEnded(
            AttemptId(at, 0, 1),
            Exit(Cause.EXITED, at - 1, started_ms=run[3] * HOUR, ended_ms=run[4] * HOUR),
            Happening.SUCCEEDED if at == 1 else Happening.FAILED,
        )
        for at, run in enumerate(RUNS, 1)
    ]
    await store.commit(epoch, Batch(21 * HOUR, ended=ended))
    await store.commit(epoch, Batch(29 * HOUR, assigned=[Assigned(AttemptId(4, 0, 1), "n1", (0,))]))
    await store.commit(epoch, Batch(30 * HOUR, started=[Started(AttemptId(4, 0, 1), 30 * HOUR)]))
    await store.commit(epoch, Batch(31 * HOUR, assigned=[Assigned(AttemptId(5, 0, 1), "n1", (1,))]))


async def jobs_in(store: Store, where: TimelineFilter, most: int = 100) -> list[int]:
    found = await store.occupations(where, most, 10, 40 * HOUR)
    assert not found.is_summed
    return sorted(one.attempt_id.job_id for one in found.attempts)


async def test_timeline_has_finished_running_and_starting_attempts(store: Store) -> None:
    await filled(store)
    found = await store.occupations(ALL, 100, 10, 40 * HOUR)
    by_job = {one.attempt_id.job_id: one for one in found.attempts}
    first = AttemptId(1, 0, 1)
    assert by_job[1] == Occupation(
        first, "n1", (0,), "ann", "default", "job of ann", 1000, 500, 10 * HOUR, 12 * HOUR, Cause.EXITED
    )
    assert [by_job[job_id].has_failed for job_id in (1, 2, 3, 4)] == [False, True, True, False]
    assert (by_job[4].started_ms, by_job[4].ended_ms, by_job[4].time_limit_s) == (30 * HOUR, None, 7200)
    assert (by_job[5].started_ms, by_job[5].is_starting, by_job[5].devices) == (31 * HOUR, True, (1,))
    assert sorted(by_job) == [1, 2, 3, 4, 5]
    assert not found.load


async def test_timeline_has_only_attempts_that_overlap_the_window(store: Store) -> None:
    await filled(store)
    assert await jobs_in(store, TimelineFilter(0, 10 * HOUR)) == []
    assert await jobs_in(store, TimelineFilter(0, 11 * HOUR)) == [1]
    assert await jobs_in(store, TimelineFilter(13 * HOUR, 15 * HOUR)) == [2, 3]
    assert await jobs_in(store, TimelineFilter(15 * HOUR, 16 * HOUR)) == [3], "began before, ended after"
    assert await jobs_in(store, TimelineFilter(25 * HOUR, 26 * HOUR)) == []
    assert await jobs_in(store, TimelineFilter(50 * HOUR, 60 * HOUR)) == [4, 5], "nothing has ended them"


async def test_timeline_has_only_the_nodes_and_jobs_asked_for(store: Store) -> None:
    await filled(store)
    assert await jobs_in(store, replace(ALL, node_ids=("n1",))) == [1, 2, 4, 5]
    assert await jobs_in(store, replace(ALL, node_ids=("n2", "n3", "n4"))) == [3]
    assert await jobs_in(store, replace(ALL, node_ids=())) == []
    assert await jobs_in(store, replace(ALL, seen=Seen("bob", frozenset()))) == [2, 5]
    assert await jobs_in(store, replace(ALL, seen=Seen(None, frozenset({"default"})))) == [1, 2, 3, 4, 5]
    assert await jobs_in(store, replace(ALL, seen=Seen(None, frozenset({"other"})))) == []


async def test_too_many_finished_attempts_are_summed_up_per_node_and_bin(store: Store) -> None:
    await filled(store)
    where = TimelineFilter(10 * HOUR, 20 * HOUR)
    found = await store.occupations(where, 2, 10, 40 * HOUR)
    assert found.is_summed
    assert not found.attempts
    full = LoadBin(0, 1000 * HOUR // 1000, 500 * HOUR // 1000)
    ends = replace(full, attempts=1)
    assert found.load["n1"] == {
        0: full,
        1: LoadBin(1, 2 * full.gpu_ms, 2 * full.cpu_ms),
        2: full,
        3: ends,
    }
    assert found.load["n2"] == {**dict.fromkeys(range(3, 9), full), 9: ends}
    narrow = await store.occupations(TimelineFilter(0, 100 * HOUR), 4, 1, 40 * HOUR)
    assert sorted(one.attempt_id.job_id for one in narrow.attempts) == [4, 5], "what runs is still shown"
    assert narrow.load["n1"][0] == LoadBin(2, 5 * full.gpu_ms, 5 * full.cpu_ms)
    fewest = await store.occupations(TimelineFilter(0, 100 * HOUR), 1, 1, 32 * HOUR)
    assert not fewest.attempts
    assert fewest.load["n1"][0] == LoadBin(4, 8 * full.gpu_ms, 8 * full.cpu_ms)


async def test_report_details_count_waits_and_the_time_of_failed_tasks(store: Store) -> None:
    await filled(store)
    where = ReportFilter(from_ms=0, until_ms=40 * HOUR)
    details = await store.report_details(where, (GroupBy.USER,), 40 * HOUR)
    ann, bob = details[("ann",)], details[("bob",)]
    assert ann.waits == {HOUR: 1, FOUR: 1, rounded_wait(21 * HOUR): 1}
    assert (ann.wait_percentile(50), ann.wait_percentile(90)) == (FOUR, rounded_wait(21 * HOUR))
    assert (ann.failed_ms, ann.failed_gpu_ms) == (7 * HOUR, 7 * HOUR)
    assert (bob.waits, bob.failed_ms) == ({2 * HOUR: 1}, 3 * HOUR)
    only = await store.report_details(replace(where, users=frozenset({"bob"})), (GroupBy.USER,), 40 * HOUR)
    assert only == {("bob",): bob}
    cut = replace(where, from_ms=11 * HOUR, until_ms=14 * HOUR)
    parts = await store.report_details(cut, (GroupBy.NODE,), 40 * HOUR)
    assert (parts["n1",].waits, parts["n1",].failed_ms) == ({2 * HOUR: 1}, 3 * HOUR)
    assert (parts["n2",].waits, parts["n2",].failed_ms) == ({FOUR: 1}, HOUR)


async def test_report_details_are_split_by_day(store: Store) -> None:
    await filled(store)
    where = ReportFilter(from_ms=0, until_ms=40 * HOUR)
    details = await store.report_details(where, (GroupBy.DAY,), 40 * HOUR)
    assert details["1970-01-01",].waits == {HOUR: 1, 2 * HOUR: 1, FOUR: 1}
    assert details["1970-01-02",].waits == {rounded_wait(21 * HOUR): 1}


def test_waits_are_rounded_down_to_two_digits() -> None:
    assert [rounded_wait(ms) for ms in (0, 7, 999, 1234, 98_765, 10**15 + 7)] == [
        0, 7, 990, 1200, 98_000, 10**15,
    ]  # fmt: skip
