"""Ledger of repeated runs, in a folder that git ignores.

It has a JSON line for each finished run, and a file of outcomes for each run, finished or not.
"""

import fcntl
import hashlib
import json
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.harness import outcomes
from tests.harness.outcomes import Outcome

FOLDER = Path(".test-repeat")
"""In the checkout, from which all of this is run."""
ALL, PROCESSES = "all", "processes"
"""Which tests are run: all, or those that start processes."""


class RunGoesOnError(Exception):
    """Another process, perhaps a pytest that was left behind, works in this folder."""


@dataclass(frozen=True, slots=True)
class Series:
    """Runs that count together: same code, same tests, same load."""

    commit: str
    only: str
    load: int
    arguments: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        digest = hashlib.sha256("\0".join(self.arguments).encode()).hexdigest()[:8]
        return f"{self.commit}-{self.only}-load{self.load}-{digest}"


@dataclass(frozen=True, slots=True)
class Run:
    series: Series
    number: int
    duration_s: float
    tests: int
    exit_status: int
    failed: tuple[str, ...]


class Ledger:
    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)
        self._lock = (folder / "lock").open("w", encoding="ascii")

    def lock(self) -> int:
        """Its file descriptor: processes that inherit it keep the folder locked for as long as they live."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunGoesOnError from None
        return self._lock.fileno()

    def runs(self, series: Series) -> list[Run]:
        """Finished ones, oldest first."""
        return [run for run in self._all() if run.series == series]

    def add(self, run: Run) -> None:
        with (self._folder / "runs.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(run)) + "\n")

    def outcomes_of(self, series: Series, number: int) -> Path:
        (self._folder / series.name).mkdir(exist_ok=True)
        return self._folder / series.name / f"{number:03}.jsonl"

    def done(self, series: Series, number: int) -> list[Outcome]:
        """Outcomes of a run that was interrupted. A line that was cut off is removed."""
        path = self.outcomes_of(series, number)
        found = outcomes.read(path)
        path.write_text("".join(map(outcomes.line_of, found)), encoding="utf-8")
        return found

    def process_tests(self, series: Series) -> set[str] | None:
        """Tests that start processes, as runs of all tests of the same commit noted; None: there was none."""
        noting = [
            run
            for run in self._all()
            if (run.series.commit, run.series.arguments) == (series.commit, series.arguments)
            and run.series.only == ALL
        ]
        lines = [line for run in noting for line in outcomes.read(self.outcomes_of(run.series, run.number))]
        return {line.test for line in lines if line.starts_processes} if noting else None

    def _all(self) -> list[Run]:
        path = self._folder / "runs.jsonl"
        return list(map(_run_of, path.read_text(encoding="utf-8").splitlines())) if path.exists() else []


def commit() -> str:
    """Of the checkout, with a digest of what is not committed."""
    head = _git("rev-parse", "--short=12", "HEAD").strip()
    changes = _git("diff", "HEAD") + _git("ls-files", "--others", "--exclude-standard")
    return f"{head}+{hashlib.sha256(changes.encode()).hexdigest()[:8]}" if changes else head


def table(runs: Sequence[Run]) -> str:
    head = f"{'run':>4}  {'commit':<21}  {'load':>4}  {'tests':>6}  {'failed':>6}  {'seconds':>7}  exit"
    rows = [
        f"{run.number:>4}  {run.series.commit:<21}  {run.series.load:>4}  {run.tests:>6}  "
        f"{len(run.failed):>6}  {run.duration_s:>7.0f}  {run.exit_status}"
        for run in runs
    ]
    counts = Counter(test for run in runs for test in run.failed)
    failures = [f"{count:>3} of {len(runs)}  {test}" for test, count in counts.most_common()]
    return "\n".join([head, *rows, "", *(failures or ["No test failed."])])


def _run_of(line: str) -> Run:
    said = json.loads(line)
    series = said.pop("series")
    series["arguments"] = tuple(series["arguments"])
    return Run(series=Series(**series), failed=tuple(said.pop("failed")), **said)


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout
