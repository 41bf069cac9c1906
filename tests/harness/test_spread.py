"""Order of the collected tests for several workers."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from tests.harness import spread


@dataclass(frozen=True)
class Item:
    nodeid: str


def files(folder: str, count: int, tests: int) -> list[list[Item]]:
    return [[Item(f"{folder}test_{n}.py::test_{m}") for m in range(tests)] for n in range(count)]


def block(share: Sequence[Sequence[Item]]) -> list[str]:
    return [item.nodeid for item in chain.from_iterable(share)]


def test_every_worker_begins_with_its_share_of_slow_files() -> None:
    slow, fast = files("tests/end_to_end/", 8, 5), files("tests/domain/", 20, 30)
    shares = spread.blocks([*fast, *slow], 4)  # type: ignore[arg-type]
    for share in shares:
        names = block(share)
        assert [name.startswith("tests/end_to_end/") for name in names[:11]] == [True] * 10 + [False]
        assert len(names) == (8 * 5 + 20 * 30) / 4
    assert sorted(chain.from_iterable(map(block, shares))) == sorted(block([*slow, *fast]))


def test_files_that_share_a_fixture_begin_the_block_of_one_worker() -> None:
    cluster, engine = files("tests/end_to_end/cluster/", 3, 2), files("tests/runner/docker/", 4, 9)
    shares = spread.blocks([*files("tests/end_to_end/", 8, 5), *cluster, *engine], 4)  # type: ignore[arg-type]
    for number, (folder, count) in enumerate((("cluster/", 6), ("docker/", 36))):
        assert [folder in name for name in block(shares[number])[: count + 1]].count(True) == count
        assert not any(
            folder in name for share in shares if share is not shares[number] for name in block(share)
        )


def test_order_does_not_depend_on_the_order_of_collection() -> None:
    some = [*files("tests/end_to_end/", 5, 2), *files("tests/api/", 9, 4)]
    assert spread.blocks(some, 3) == spread.blocks(some[::-1], 3)  # type: ignore[arg-type]
