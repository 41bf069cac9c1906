"""Runs the suite, or its tests that start processes, N times under load. Resumes what was interrupted.

Finished runs of the same commit, load and arguments count. When a run is resumed, tests that have an outcome
are left out.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from tests.harness import ledger, load, outcomes, process_starts
from tests.harness.ledger import ALL, PROCESSES, Ledger, Run, Series
from tests.harness.once import ARGUMENTS

_ENDED = (0, 1)
_STOPPED, _NO_TESTS = 2, 5
_INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    said = _parser().parse_args(arguments)
    book = Ledger()
    try:
        lock = book.lock()
    except ledger.RunGoesOnError:
        print(
            "Another run uses .test-repeat. Wait for it to end, or stop its pytest processes.",
            file=sys.stderr,
        )
        return 2
    series = Series(ledger.commit(), said.only, said.load, tuple(said.pytest))
    try:
        if said.only == PROCESSES and book.process_tests(series) is None:
            print("One run of all tests first: it notes which of them start processes.", flush=True)
            _repeat(book, replace(series, only=ALL), 1, lock)
        _repeat(book, series, said.runs, lock)
    except KeyboardInterrupt:
        print("\nInterrupted. The same command goes on from here.")
        return _INTERRUPTED
    finally:
        print("\n" + ledger.table(book.runs(series)))
    return int(any(run.failed or run.exit_status not in _ENDED for run in book.runs(series)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests.harness.repeat", description=__doc__)
    parser.add_argument("--runs", type=int, required=True, metavar="N")
    parser.add_argument("--load", type=int, default=0, metavar="N", help="busy processes beside the tests")
    parser.add_argument("--only", choices=(ALL, PROCESSES), default=ALL)
    parser.add_argument("pytest", nargs="*", help="arguments for pytest, after --")
    return parser


def _repeat(book: Ledger, series: Series, runs: int, lock: int) -> None:
    while (number := len(book.runs(series)) + 1) <= runs:
        print(f"\nRun {number} of {runs}: {series.name}", flush=True)
        with load.busy(series.load):
            _run(book, series, number, lock)


def _run(book: Ledger, series: Series, number: int, lock: int) -> None:
    record, done = book.outcomes_of(series, number), book.done(series, number)
    command = [
        *(sys.executable, "-m", "pytest", "-p", outcomes.PLUGIN, "-p", process_starts.PLUGIN),
        f"--outcomes={record}",
        f"--leave-out={_listed(record, 'done', (one.test for one in done))}",
        *ARGUMENTS,
        *series.arguments,
    ]
    if series.only == PROCESSES:
        tests = sorted(book.process_tests(series) or ())
        command.append(f"--only-listed={_listed(record, 'tests', tests)}")
    began = time.monotonic()
    status = _status_of(command, lock)
    found = outcomes.read(record)
    if status == _STOPPED and not any(one.broken for one in found):
        raise KeyboardInterrupt
    if status == _NO_TESTS and done:
        status = 0
    failed = tuple(dict.fromkeys(one.test for one in found if one.failed))
    seconds = round(time.monotonic() - began, 1)
    book.add(Run(series, number, seconds, len(found), max(status, int(bool(failed))), failed))


def _listed(record: Path, kind: str, tests: Iterable[str]) -> Path:
    path = record.with_suffix(f".{kind}")
    outcomes.write_ids(path, tests)
    return path


def _status_of(command: Sequence[str], lock: int) -> int:
    """Of a run to its end. Raises KeyboardInterrupt when pytest has ended for that, too."""
    process = subprocess.Popen(command, pass_fds=(lock,))
    try:
        status = process.wait()
    except KeyboardInterrupt:
        process.wait()
        raise
    if status < 0:
        raise KeyboardInterrupt  # killed: not an outcome of the tests
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
