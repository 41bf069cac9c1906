"""Run times by what similar tasks took."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tgpu.core.estimates.run_times import ENOUGH, KEPT, MOST_KEYS, RunTimes, Work

TRAIN = Work("ada", "train", "train.py#1", 1000, 3600)
DAY_S = 86_400.0
seconds = st.floats(0.0, 100_000.0)
quantiles = st.floats(0.0, 1.0)


def history(*runs: float, work: Work = TRAIN) -> RunTimes:
    known = RunTimes()
    known.add_all((work, run) for run in runs)
    return known


def median(known: RunTimes, work: Work = TRAIN, elapsed_s: float = 0.0) -> float:
    return known.distribution(work, DAY_S, elapsed_s).remaining_s(elapsed_s, 0.5)


def test_same_command_of_the_same_user_is_the_best_guess() -> None:
    known = history(100, 110, 90, 105, 95)
    known.add_all((TRAIN._replace(name="other", command="other.py#9"), 3000.0) for _ in range(20))
    assert median(known) == 100
    assert known.distribution(TRAIN, DAY_S).count == 5


def test_one_run_of_the_same_command_already_says_something() -> None:
    found = history(100).distribution(TRAIN, DAY_S)
    assert found.count == 1
    assert found.remaining_s(0, 0.5) == 100
    assert found.remaining_s(0, 0.1) < 100 < found.remaining_s(0, 0.9)


def test_other_arguments_of_the_same_program_come_next_then_requests_then_users_then_classes() -> None:
    known = history(100, 100, 100)
    assert median(known, TRAIN._replace(command="train.py#2")) == 100
    assert median(known, TRAIN._replace(command="new.py#2")) == 100, "same user, request and limit"
    assert median(known, TRAIN._replace(command="", gpu_milli=4000)) == 100, "same user"
    assert median(known, TRAIN._replace(command="", user="bob")) == 100, "same request and limit"
    stranger = TRAIN._replace(command="", user="bob", gpu_milli=4000)
    assert known.distribution(stranger, DAY_S).count == 0


def test_without_history_the_limit_is_what_is_known() -> None:
    found = RunTimes().distribution(TRAIN, DAY_S)
    assert found.count == 0
    assert 0 < found.remaining_s(0, 0.1) < found.remaining_s(0, 0.5) < 3600
    assert found.remaining_s(0, 0.9) == 3600


def test_time_already_run_counts() -> None:
    known = history(*[100.0] * 8, *[1000.0] * 8)
    assert median(known) < 1000
    assert 880 <= median(known, elapsed_s=110) <= 900, "it is one of the long ones"


def test_task_that_outlived_all_similar_ones_is_judged_by_its_limit() -> None:
    found = history(100, 110, 90).distribution(TRAIN, DAY_S, 600)
    assert found.count == 0
    assert 0 < found.remaining_s(600, 0.5) < 3000


def test_only_the_latest_runs_count_and_memory_is_bounded() -> None:
    known = history(*[10.0] * KEPT, *[500.0] * KEPT)
    assert median(known) == 500
    for number in range(MOST_KEYS):
        known.add(Work(f"u{number}", "", "", 0, None), 1.0)
    assert len(known) == MOST_KEYS
    assert known.distribution(TRAIN._replace(gpu_milli=5), DAY_S).count == 0, "the oldest are forgotten"


@settings(deadline=None, max_examples=40)
@given(st.lists(seconds, max_size=40), seconds, st.lists(quantiles, min_size=2, max_size=6))
def test_remaining_time_grows_with_the_quantile_and_stays_within_the_limit(
    runs: list[float], elapsed_s: float, at: list[float]
) -> None:
    found = history(*runs).distribution(TRAIN, DAY_S, elapsed_s)
    remaining = [found.remaining_s(elapsed_s, quantile) for quantile in sorted(at)]
    assert remaining == sorted(remaining)
    assert remaining[0] >= 0
    if elapsed_s <= 3600:
        assert elapsed_s + remaining[-1] <= 3600 + 1e-6 * 3600 + 5


@settings(deadline=None, max_examples=40)
@given(st.lists(seconds, min_size=ENOUGH, max_size=40), quantiles)
def test_renaming_a_user_changes_no_estimate(runs: list[float], quantile: float) -> None:
    renamed = TRAIN._replace(user="zoe")
    first = history(*runs).distribution(TRAIN, DAY_S)
    second = history(*runs, work=renamed).distribution(renamed, DAY_S)
    assert first == second
    assert first.remaining_s(0, quantile) == second.remaining_s(0, quantile)
