"""The benchmarks can be started; what they measure is judged by running them, not here."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
MODULES = {"big_cluster.py", "installation.py", "numpy_scan.py", "report.py"}
SCRIPTS = sorted(path.name for path in BENCH.glob("*.py") if path.name not in MODULES)


def run(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words], cwd=BENCH, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_explains_itself(script: str) -> None:
    assert "usage:" in run(script, "--help")


def test_the_floor_runs_its_jobs_and_leaves_nothing(tmp_path: Path) -> None:
    assert float(run("-I", "-S", "floor_spawn.py", "10", "2", str(tmp_path))) > 0
    assert list(tmp_path.iterdir()) == []


def test_the_table_of_all_benchmarks_forgets_none() -> None:
    listed = run("-c", "import run_all; print(*sorted(f'{name}.py' for name in run_all.SCRIPTS))").split()
    assert listed == [name for name in SCRIPTS if name not in {"run_all.py", "floor_spawn.py"}]
