"""Pytest plugin that records the outcome of every test as one JSON line, as soon as the test has ended.

`--outcomes FILE` names the file. `--leave-out FILE` deselects the tests whose ids stand in that file, one
JSON string in each line, and `--only-listed FILE` deselects all others.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

PLUGIN = "tests.harness.outcomes"
STARTS_PROCESSES = "starts_processes"
"""A property of a test that `tests.harness.process_starts` sets."""


@dataclass(frozen=True, slots=True)
class Outcome:
    test: str
    failed: bool
    duration_s: float
    starts_processes: bool = False
    broken: bool = False
    """Not a failed assertion, but a worker that crashed or a file that cannot be collected."""


def read(path: Path) -> list[Outcome]:
    """Without the last line if that was cut off when the run was killed."""
    if not path.exists():
        return []
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    return [Outcome(**json.loads(line)) for line in whole.splitlines()]


def line_of(outcome: Outcome) -> str:
    return json.dumps(asdict(outcome)) + "\n"


def write_ids(path: Path, ids: Iterable[str]) -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in ids), encoding="utf-8")


def _read_ids(path: str) -> set[str]:
    return {json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("outcomes")
    group.addoption("--outcomes", metavar="FILE", help="append the outcome of every test to FILE")
    group.addoption("--leave-out", metavar="FILE", help="deselect the tests listed in FILE")
    group.addoption("--only-listed", metavar="FILE", help="deselect all tests but those listed in FILE")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--outcomes")
    if path and not hasattr(config, "workerinput"):  # workers of xdist report to the process that records
        config.pluginmanager.register(Recorder(Path(path)), "outcome-recorder")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out, listed = config.getoption("--leave-out"), config.getoption("--only-listed")
    wanted = items[:]
    if left_out:
        ids = _read_ids(left_out)
        wanted = [item for item in wanted if item.nodeid not in ids]
    if listed:
        ids = _read_ids(listed)
        wanted = [item for item in wanted if item.nodeid in ids]
    kept = set(wanted)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = wanted


class Recorder:
    """Writes a test's line when its last phase is reported."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._failed: set[str] = set()
        self._seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self._failed.add(report.nodeid)
        if report.when == "teardown":
            properties = dict(report.user_properties)
            self._write(report.nodeid, starts_processes=bool(properties.get(STARTS_PROCESSES)))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)
            self._write(report.nodeid, broken=True)

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str) -> None:
        self._failed.add(crashitem)
        self._write(crashitem, broken=True)

    def pytest_unconfigure(self) -> None:
        self._file.close()

    def _write(self, test: str, *, starts_processes: bool = False, broken: bool = False) -> None:
        seconds = round(self._seconds.pop(test, 0.0), 3)
        self._file.write(line_of(Outcome(test, test in self._failed, seconds, starts_processes, broken)))
        self._file.flush()
