"""`make install PYTHON=…` keeps to the Python that was named."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]
OLD = "#!/bin/sh\necho 3.11.0 at /opt/old/python3\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """With an environment that was made of another Python."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(TREE / "Makefile", tmp_path)
    for name in ("make-venv", "install-debian", "with-progress"):
        shutil.copy(TREE / "scripts" / name, tmp_path / "scripts")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/pyvenv.cfg").write_text("old")
    (tmp_path / ".venv/bin/python").write_text(OLD)
    (tmp_path / ".venv/bin/python").chmod(0o755)
    return tmp_path


def make(tree: Path, *said: str) -> subprocess.CompletedProcess[str]:
    bare = {name: value for name, value in os.environ.items() if name not in {"PYTHON", "MAKEFLAGS"}}
    command = ["make", "-s", ".venv/pyvenv.cfg", *said]
    return subprocess.run(command, cwd=tree, env=bare, capture_output=True, text=True, check=False)


def test_an_environment_of_another_python_than_is_named_is_made_anew_once(tree: Path) -> None:
    done = make(tree, f"PYTHON={sys.executable}")
    assert done.stdout.startswith(".venv has Python 3.11.0 at /opt/old/python3; it is created again with "), (
        done
    )
    assert (tree / ".venv/bin/python").resolve() == Path(sys.executable).resolve()
    made_ns = (tree / ".venv/pyvenv.cfg").stat().st_mtime_ns
    for said in ([f"PYTHON={sys.executable}"], []):
        assert make(tree, *said).stdout == ""
        assert (tree / ".venv/pyvenv.cfg").stat().st_mtime_ns == made_ns


def test_without_a_name_whichever_it_has_stays(tree: Path) -> None:
    done = make(tree)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tree / ".venv/pyvenv.cfg").read_text() == "old"


def test_a_python_that_there_is_not_takes_nothing_away(tree: Path) -> None:
    done = make(tree, "PYTHON=python9.9")
    assert done.returncode != 0
    assert "there is no Python called python9.9" in done.stderr
    assert (tree / ".venv/pyvenv.cfg").read_text() == "old"
