"""Indices as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgpu.domain.index_set import (
    MAX_INDEX,
    MAX_INDICES,
    IndexSet,
    NoSuchIndexError,
    parse_array,
    parse_indices,
)
from tgpu.domain.quantities import BadQuantityError


@pytest.mark.parametrize(
    ("written", "indices", "text"),
    [
        ("0-3", [0, 1, 2, 3], "0-3"),
        ("7", [7], "7"),
        ("1,3,5-9:2", [1, 3, 5, 7, 9], "1,3,5-9:2"),
        (" 5-6 , 1 ", [1, 5, 6], "1,5-6"),
        ("0-10:4", [0, 4, 8], "0-8:4"),
        ("3-4:7", [3], "3"),
    ],
)
def test_indices_are_known_by_their_positions(written: str, indices: list[int], text: str) -> None:
    found = parse_indices("array", written)
    assert list(found) == indices
    assert [found.at(position) for position in range(found.count)] == indices
    assert [found.position_of(index) for index in indices] == list(range(len(indices)))
    assert (found.lowest, found.highest, found.text) == (indices[0], indices[-1], text)


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("5-1", "array: 5-1 is backwards; write 1-5"),
        ("0-99999999", "array may have at most 1,000,000 indices, and 0-99999999 has 100,000,000"),
        ("0-10:2,4-12:2", "array: 0-10:2 and 4-12:2 overlap; write stretches that lie one after the other"),
        ("3,1-3", "array: 1-3 and 3 overlap"),
        ("0-9:0", "array: the step of 0-9:0 must be 1 or more, such as 0-9:2"),
        (f"{MAX_INDEX + 1}", f"array: an index may be at most {MAX_INDEX}"),
        ("", "array must be indices, such as 0-999, 1,3,5-9:2 or 0-999%50; got ''"),
        ("1,,2", "array must be indices"),
        ("-3", "array must be indices"),
        ("a-b", "array must be indices"),
        ("1-²", "array must be indices"),
        ("4:2", "array must be indices"),
        ("9" * 5000, "array must be indices"),
    ],
)
def test_what_is_no_set_of_indices_is_told_what_to_write(written: str, sentence: str) -> None:
    with pytest.raises(BadQuantityError) as refused:
        parse_indices("array", written)
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize("written", ["0-9%0", "0-9%", "0-9%-1", "0-9%x"])
def test_how_many_at_once_is_a_number(written: str) -> None:
    with pytest.raises(BadQuantityError, match="must say how many run at once, 1 or more, such as 0-9%50"):
        parse_array("array", written)


def test_an_array_says_how_many_run_at_once() -> None:
    indices, at_once = parse_array("array", "0-999%50")
    assert (indices.count, at_once) == (1000, 50)
    assert parse_array("array", "0-9") == (IndexSet.first(10), None)
    assert parse_indices("array", f"0-{MAX_INDICES - 1}").count == MAX_INDICES


def test_positions_that_are_not_there() -> None:
    found = parse_indices("array", "2-8:3")
    assert [found.position_of(index) for index in (1, 3, 9, 5)] == [None, None, None, 1]
    with pytest.raises(IndexError):
        found.at(3)


@given(st.sets(st.integers(0, 300), min_size=1))
def test_any_indices_can_be_written_and_read_again(indices: set[int]) -> None:
    made = IndexSet.of(indices)
    again = parse_indices("array", made.text)
    assert list(again) == sorted(indices)
    assert all((index in again) == (index in indices) for index in range(302))


def _stretches(low: int, high: int) -> st.SearchStrategy[IndexSet]:
    """Of any steps, one after the other."""
    cuts = st.lists(st.integers(low, high), min_size=2, max_size=8, unique=True).map(sorted)
    steps = st.lists(st.integers(1, 4), min_size=4, max_size=4)
    return st.builds(
        lambda at, by: IndexSet(
            tuple((a, b - (b - a) % c, c) for a, b, c in zip(at[::2], at[1::2], by, strict=False))
        ),
        cuts,
        steps,
    )


@given(_stretches(0, 40), _stretches(0, 40))
def test_positions_of_many_are_those_of_each(all_of_them: IndexSet, wanted: IndexSet) -> None:
    missing = next((index for index in wanted if index not in all_of_them), None)
    if missing is None:
        found = all_of_them.positions_of(wanted)
        assert list(found) == [all_of_them.position_of(index) for index in wanted]
    else:
        with pytest.raises(NoSuchIndexError) as refused:
            all_of_them.positions_of(wanted)
        assert refused.value.index == missing


@given(_stretches(0, 40), st.integers(0, 45))
def test_the_next_one_is_the_first_that_is_not_before(some: IndexSet, index: int) -> None:
    assert some.next_from(index) == next((each for each in some if each >= index), None)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("0-8:4", "0,4,8", True),
        ("1,2,3", "1-3", True),
        ("0-8:4", "0,5,8", False),
        ("0-8:4", "0,4", False),
        ("1-3", "2-4", False),
    ],
)
def test_sets_are_the_same_however_they_are_written(one: str, other: str, same: bool) -> None:
    first, second = parse_indices("array", one), parse_indices("array", other)
    assert first.is_same(second) is second.is_same(first) is same
