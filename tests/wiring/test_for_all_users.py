"""Whether other users can run an installation."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tgpu.wiring.for_all_users import closed_to_others


@pytest.fixture
def tree() -> Iterator[Path]:
    """Open from the root on: pytest's own directories are closed to others."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        root = Path(made)
        root.chmod(0o755)
        python = root / "python" / "bin" / "python3"
        python.parent.mkdir(parents=True)
        python.touch()
        python.chmod(0o755)
        (root / "venv").mkdir()
        (root / "venv" / "python").symlink_to("../python/bin/python3")
        yield root


def test_an_open_one_can_be_run(tree: Path) -> None:
    assert closed_to_others(tree / "venv" / "python") is None


def test_the_directory_of_what_a_link_leads_to_counts(tree: Path) -> None:
    (tree / "python").chmod(0o700)
    assert closed_to_others(tree / "venv" / "python") == tree / "python"


def test_so_does_the_program_itself(tree: Path) -> None:
    (tree / "python" / "bin" / "python3").chmod(0o750)
    assert closed_to_others(tree / "venv" / "python") == tree / "python" / "bin" / "python3"


def test_so_does_what_a_linked_directory_leads_to(tree: Path) -> None:
    (tree / "opt").symlink_to("python")
    (tree / "python").chmod(0o700)
    assert closed_to_others(tree / "opt" / "bin" / "python3") == tree / "python"
