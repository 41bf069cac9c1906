"""Jobs of many tasks that are alike."""

from tgpu.domain.index_set import IndexSet, parse_indices
from tgpu.domain.series import FIRST_BORN, Mode, Series


def test_a_task_finds_its_index_in_its_environment() -> None:
    array = Series(parse_indices("array", "10-30:10"))
    assert array.variables(1) == {
        "TGPU_ARRAY_INDEX": "20",
        "TGPU_ARRAY_COUNT": "3",
        "TGPU_ARRAY_MIN": "10",
        "TGPU_ARRAY_MAX": "30",
        "TGPU_ARRAY_STEP": "10",
    }
    indexed = Series(IndexSet.first(4), 2, Mode.INDEXED)
    assert indexed.variables(3)["TGPU_ARRAY_INDEX"] == "3"


def test_some_indices_that_are_done_again_find_what_they_found_before() -> None:
    array = Series(parse_indices("array", "10-30:10"))
    again = array.only(IndexSet.of([20]))
    assert again.variables(0) == array.variables(1)
    assert again.only(IndexSet.of([20])).variables(0) == array.variables(1)


def test_no_more_tasks_are_made_at_first_than_may_run_at_once() -> None:
    many = IndexSet.first(100_000)
    assert Series(many).first_born == FIRST_BORN
    assert Series(many, 5).first_born == 5
    assert Series(many, 500).first_born == FIRST_BORN
    assert Series(IndexSet.first(3)).first_born == 3
