"""`import tgpu` costs next to nothing; what it offers is loaded when it is asked for."""

import subprocess
import sys
from pathlib import Path

import pytest

import tgpu


def test_importing_it_loads_nothing_heavy() -> None:
    code = "import sys; before = set(sys.modules); import tgpu; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"tgpu", "tgpu.checkpoint"}


def test_a_type_checker_knows_what_it_offers_and_what_not(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import tgpu\n\nreveal_type(tgpu.Client().submit)\ntgpu.Server\n")
    check = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), program]
    done = subprocess.run(check, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert 'program.py:3: note: Revealed type is "def (command: ' in done.stdout
    assert 'program.py:4: error: Module has no attribute "Server"  [attr-defined]' in done.stdout
    assert "Found 1 error in 1 file" in done.stdout


def test_everything_it_names_is_there() -> None:
    assert {name: getattr(tgpu, name) for name in tgpu.__all__}
    assert dir(tgpu) == sorted(tgpu.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Server'"):
        tgpu.Server  # type: ignore[attr-defined]  # noqa: B018
