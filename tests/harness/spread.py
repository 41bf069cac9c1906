"""Pytest plugin that gives every worker of pytest-xdist an equal share of slow test files, and those first.

The scheduler `worksteal` cuts the collected tests into one block per worker. In the order of the file system
one block has most tests that wait for processes, and at the end the cores are idle. Files that share an
expensive fixture (a cluster, a Docker engine) begin one block: only one worker has to set it up, because idle
workers steal from the end of a block.
"""

import hashlib
from collections.abc import Sequence
from itertools import chain, groupby

import pytest

PLUGIN = "tests.harness.spread"
_TOGETHER = (
    ("tests/end_to_end/cluster/",),
    ("tests/runner/docker/", "tests/end_to_end/test_containers.py"),
)
_SLOW = ("tests/end_to_end/", "tests/runner/docker/", "tests/bench/", "tests/simulation/", "tests/dialects/")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers > 1:
        files = [list(tests) for _, tests in groupby(items, key=_file)]
        items[:] = chain.from_iterable(chain.from_iterable(blocks(files, workers)))


def blocks(files: Sequence[Sequence[pytest.Item]], workers: int) -> list[list[Sequence[pytest.Item]]]:
    """The files of each worker: those that belong together first, then each file to the worker with the
    fewest tests so far."""
    shares: list[list[Sequence[pytest.Item]]] = [[] for _ in range(workers)]
    rest = []
    for tests in sorted(files, key=lambda tests: _rank(_file(tests[0]))):
        group = _group(_file(tests[0]))
        if group is None:
            rest.append(tests)
        else:
            shares[group % workers].append(tests)
    for tests in rest:
        min(shares, key=lambda share: sum(map(len, share))).append(tests)
    return shares


def _group(file: str) -> int | None:
    return next((n for n, paths in enumerate(_TOGETHER) if file.startswith(paths)), None)


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _rank(file: str) -> tuple[bool, str]:
    """Slow folders first; inside them in an order that has nothing to do with names."""
    return not file.startswith(_SLOW), hashlib.sha256(file.encode()).hexdigest()
