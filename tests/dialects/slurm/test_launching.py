"""How a batch script is started: what it finds on PATH, and what it is called."""

import os
import subprocess
from pathlib import Path

import pytest

from tgpu.dialects.slurm import launching


def started(text: str, home: Path, **more: str) -> str:
    """What a script prints where `srun` is in a folder that a login forgets."""
    folder = home / "bin of slurm"
    folder.mkdir()
    (folder / "srun").write_text("#!/bin/sh\necho ran $1\n")
    (folder / "srun").chmod(0o755)
    (home / ".bash_profile").write_text("PATH=/usr/bin:/bin\nFROM_PROFILE=yes\n")
    (home / "own_env").write_text("FROM_OWN=yes\n")
    environ = {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(home), "TMPDIR": str(home), **more}
    done = subprocess.run(
        launching.command(text, ["one"]), env=environ, capture_output=True, text=True, timeout=20, check=False
    )
    assert done.stderr == ""
    assert not list(home.glob("slurm_*"))
    return done.stdout


@pytest.mark.parametrize("first", ["#!/bin/bash -l", "#!/bin/bash --login", "#!/bin/bash -el"])
def test_a_login_shell_finds_slurms_commands(tmp_path: Path, first: str) -> None:
    script = f"{first}\nsrun $1\necho $FROM_PROFILE ${{BASH_ENV-none}} ${{TGPU_LAUNCHERS-none}}\n"
    assert started(script, tmp_path) == "ran one\nyes none none\n"


def test_a_login_shell_keeps_what_it_was_told_to_read(tmp_path: Path) -> None:
    own = str(tmp_path / "own_env")
    script = "#!/bin/bash -l\nsrun $1\necho $FROM_PROFILE $FROM_OWN $BASH_ENV\n"
    assert started(script, tmp_path, BASH_ENV=own) == f"ran one\nyes yes {own}\n"


def test_other_shells_are_started_as_they_are(tmp_path: Path) -> None:
    assert (
        started("#!/bin/bash -e\nsrun $1\necho $0 ${BASH_ENV-none}\n", tmp_path)
        == "ran one\n/dev/fd/9 none\n"
    )
