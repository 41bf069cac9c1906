"""Which failures count, and what becomes of tasks that fail."""

import pytest

from tgpu.domain.lifecycle import Cause
from tgpu.domain.retries import FailureAction, FailureRule, Retries, backoff_s


def test_the_first_rule_that_matches_decides() -> None:
    retries = Retries(
        3,
        rules=(
            FailureRule(FailureAction.FAIL_JOB, exit_codes=(42,)),
            FailureRule(FailureAction.IGNORE, causes=(Cause.OUT_OF_MEMORY,)),
            FailureRule(FailureAction.FAIL_INDEX, signals=(11,)),
            FailureRule(FailureAction.COUNT, not_exit_codes=(1, 2)),
        ),
    )
    assert retries.action(Cause.EXITED, 42, None) is FailureAction.FAIL_JOB
    assert retries.action(Cause.OUT_OF_MEMORY, 137, 9) is FailureAction.IGNORE
    assert retries.action(Cause.SIGNALLED, None, 11) is FailureAction.FAIL_INDEX
    assert retries.action(Cause.EXITED, 7, None) is FailureAction.COUNT
    assert retries.action(Cause.EXITED, 1, None) is None
    assert retries.action(Cause.NODE_LOST, None, None) is None


@pytest.mark.parametrize("cause", [Cause.PREEMPTED, Cause.NODE_LOST, Cause.MEMORY_PRESSURE])
def test_what_a_task_did_not_bring_about_is_meant_only_by_name(cause: Cause) -> None:
    by_code = FailureRule(FailureAction.FAIL_JOB, exit_codes=(1,))
    by_name = FailureRule(FailureAction.FAIL_INDEX, exit_codes=(1,), causes=(cause,))
    assert Retries(rules=(by_code, by_name)).action(cause, 1, None) is FailureAction.FAIL_INDEX
    assert Retries(rules=(by_code, by_name)).action(Cause.EXITED, 1, None) is FailureAction.FAIL_JOB


def test_a_limit_is_of_the_job_or_of_each_index() -> None:
    assert [Retries(2).exhausts_job(failures) for failures in (1, 2, 3)] == [False, False, True]
    assert not Retries(2).exhausts_index(9)
    assert [Retries(None, 1).exhausts_index(failures) for failures in (1, 2)] == [False, True]
    assert Retries(max_failures=3).exhausts_index(1)


@pytest.mark.parametrize(("failures", "seconds"), [(0, 10), (1, 10), (2, 20), (6, 320), (7, 360), (99, 360)])
def test_it_waits_twice_as_long_each_time_up_to_six_minutes(failures: int, seconds: int) -> None:
    assert backoff_s(failures) == seconds
