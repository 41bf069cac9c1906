"""`import tgpu` costs next to nothing; what it offers is loaded when it is asked for."""

import subprocess
import sys

import pytest

import tgpu


def test_importing_it_loads_nothing_heavy() -> None:
    code = "import sys; before = set(sys.modules); import tgpu; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"tgpu", "tgpu.checkpoint"}


def test_everything_it_names_is_there() -> None:
    assert {name: getattr(tgpu, name) for name in tgpu.__all__}
    assert dir(tgpu) == sorted(tgpu.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Server'"):
        tgpu.Server  # type: ignore[attr-defined]  # noqa: B018
