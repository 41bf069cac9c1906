"""Calls in files, and the program that makes them, as it runs beside them."""

import hashlib
import os
import pickle
import subprocess
import sys
from pathlib import Path

import cloudpickle
import pytest

from tgpu.api.access import MASK, masked
from tgpu.futures import parcels
from tgpu.futures.desk import ranges

KEY = bytes(range(32))


def written(folder: Path, function: object, *calls: object, path: list[str] | None = None) -> None:
    parts = [pickle.dumps(path or []), cloudpickle.dumps(function), *map(cloudpickle.dumps, calls)]
    parcels.write_calls(folder, KEY, parts)
    parcels.write_program(folder)


def run(folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Without tgpu on its path, as in an image that has none."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("TGPU_", "PYTHONPATH"))}
    env[parcels.KEY_VARIABLE] = KEY.hex()
    digest = hashlib.sha256(Path(parcels.__file__).read_bytes()).hexdigest()
    command = [sys.executable, "-c", parcels.BOOTSTRAP, str(folder), digest]
    return subprocess.run(
        command, env=env | environ, capture_output=True, text=True, timeout=60, check=False, cwd="/"
    )


def test_a_task_reads_its_own_calls_and_writes_what_they_return(tmp_path: Path) -> None:
    written(tmp_path, lambda a, b=1: a + b, [((1,), {}), ((2,), {"b": 5})], [((10,), {})])
    assert run(tmp_path, TGPU_ARRAY_INDEX="1", TGPU_ATTEMPT="3").returncode == 0
    assert run(tmp_path).returncode == 0
    first, second = (parcels.read_outcome(tmp_path, KEY, index) for index in (0, 1))
    assert first is not None
    assert second is not None
    assert (first.attempt, first.returned, pickle.loads(first.value)) == (1, True, [2, 7])
    assert (second.attempt, pickle.loads(second.value)) == (3, [11])
    assert parcels.read_outcome(tmp_path, KEY, 2) is None


def test_what_it_raises_is_written_and_shown_and_its_exit_code_says_so(tmp_path: Path) -> None:
    written(tmp_path, lambda: {}["missing"], [((), {})])
    done = run(tmp_path)
    outcome = parcels.read_outcome(tmp_path, KEY, 0)
    assert outcome is not None
    assert done.returncode == 1
    assert "KeyError: 'missing'" in done.stderr
    assert isinstance(pickle.loads(outcome.value), KeyError)
    assert (outcome.returned, outcome.said) == (False, "KeyError: 'missing'")
    assert outcome.trace.startswith("Traceback")


class DifficultError(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")  # which is not how it can be made again


def test_what_cannot_be_pickled_is_told_in_words(tmp_path: Path) -> None:
    def fails() -> None:
        raise DifficultError(1, 2)

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        written(tmp_path, fails, [((), {})])
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert run(tmp_path).returncode == 1
    outcome = parcels.read_outcome(tmp_path, KEY, 0)
    assert outcome is not None
    assert outcome.value == b""
    assert outcome.said.endswith("DifficultError: 1 and 2")


def test_a_result_that_cannot_be_pickled_is_a_failure_that_says_so(tmp_path: Path) -> None:
    written(tmp_path, lambda: (_ for _ in ()), [((), {})])
    assert run(tmp_path).returncode == 1
    outcome = parcels.read_outcome(tmp_path, KEY, 0)
    assert outcome is not None
    assert "generator" in outcome.said


def test_modules_are_found_where_the_caller_has_them(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "house_rules.py").write_text("def answer():\n    return 42\n")
    sys.path.insert(0, str(tmp_path / "lib"))
    try:
        import house_rules  # type: ignore[import-not-found]  # noqa: PLC0415  made two lines above

        written(tmp_path, house_rules.answer, [((), {})], path=[str(tmp_path / "lib")])
    finally:
        sys.path.remove(str(tmp_path / "lib"))
    assert run(tmp_path).returncode == 0
    outcome = parcels.read_outcome(tmp_path, KEY, 0)
    assert outcome is not None
    assert pickle.loads(outcome.value) == [42]


def test_something_else_is_not_taken_for_calls(tmp_path: Path) -> None:
    (tmp_path / "calls").write_bytes(b"hello, this is no such file")
    with pytest.raises(ValueError, match="is no file of calls"):
        parcels.read_parts(tmp_path, KEY, 0)


class Payload:
    """Unpickling it runs a command, as in an attack."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (self.command,)


def test_forged_result_is_refused_before_it_is_unpickled(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    evil = pickle.dumps(Payload(f"touch {mark}"))
    for forged in (evil, bytes(32) + evil):
        (tmp_path / "0.outcome").write_bytes(forged)
        with pytest.raises(parcels.ForgedError, match="not written by this submission"):
            parcels.read_outcome(tmp_path, KEY, 0)
    assert not mark.exists()


def test_result_of_one_task_does_not_stand_in_for_another(tmp_path: Path) -> None:
    parcels.write_outcome(tmp_path, KEY, 0, parcels.Outcome(1, returned=True, value=b""))
    (tmp_path / "0.outcome").rename(tmp_path / "1.outcome")
    with pytest.raises(parcels.ForgedError):
        parcels.read_outcome(tmp_path, KEY, 1)


def test_result_that_is_a_link_or_a_pipe_is_not_read(tmp_path: Path) -> None:
    parcels.write_outcome(tmp_path, KEY, 0, parcels.Outcome(1, returned=True, value=b""))
    (tmp_path / "0.outcome").rename(tmp_path / "elsewhere")
    (tmp_path / "0.outcome").symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        parcels.read_outcome(tmp_path, KEY, 0)
    os.mkfifo(tmp_path / "1.outcome")
    with pytest.raises(parcels.ForgedError, match="is not a file"):
        parcels.read_outcome(tmp_path, KEY, 1)


def test_job_does_not_unpickle_replaced_calls(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    written(tmp_path, lambda: 1, [((), {})])
    (tmp_path / "calls").unlink()
    parcels.write_calls(tmp_path, bytes(32), [pickle.dumps(Payload(f"touch {mark}"))] * 3)
    done = run(tmp_path)
    assert (done.returncode, mark.exists()) == (1, False)
    assert "was changed since" in done.stderr


def test_job_does_not_run_a_replaced_program(tmp_path: Path) -> None:
    written(tmp_path, lambda: 1, [((), {})])
    mark = tmp_path / "ran"
    (tmp_path / "run.py").write_text(f"open({str(mark)!r}, 'w')")
    done = run(tmp_path)
    assert (done.returncode, mark.exists()) == (1, False)
    assert "is not the program that was submitted" in done.stderr


def test_key_is_hidden_from_the_function_and_from_other_users(tmp_path: Path) -> None:
    written(tmp_path, os.environ.get, [((parcels.KEY_VARIABLE,), {})])
    run(tmp_path)
    outcome = parcels.read_outcome(tmp_path, KEY, 0)
    assert outcome is not None
    assert pickle.loads(outcome.value) == [None]
    assert masked({parcels.KEY_VARIABLE: KEY.hex()}) == {parcels.KEY_VARIABLE: MASK}


def test_numbers_are_written_as_ranges() -> None:
    assert ranges([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"
    assert ranges([3]) == "3"
    assert ranges([]) == ""
