"""The unit that `tgpu up --install-service` writes."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tgpu.wiring import service_unit


def test_a_restart_of_the_service_leaves_supervisors_alone() -> None:
    lines = service_unit.text(Path("/var/lib/tgpu")).splitlines()
    assert "KillMode=process" in lines
    assert "Delegate=yes" in lines
    assert "Restart=always" in lines
    assert "Environment=TGPU_HOME=/var/lib/tgpu" in lines
    (start,) = [line for line in lines if line.startswith("ExecStart=")]
    program = Path(start.removeprefix("ExecStart=").removesuffix(" up"))
    assert program.is_absolute()
    assert program.exists()


def test_it_is_written_where_systemd_looks_and_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_unit, "path", lambda: tmp_path / "system" / "tgpu.service")
    said = "\n".join(service_unit.install(tmp_path / "home", home_was_given=True))
    written = (tmp_path / "system" / "tgpu.service").read_text()
    assert f"Environment=TGPU_HOME={tmp_path / 'home'}" in written
    assert "systemctl" in said
    assert "enable --now tgpu" in said


def test_systemd_itself_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    unit = tmp_path / "tgpu.service"
    unit.write_text(service_unit.text(tmp_path))
    assert analyze is not None, "make test installs systemd"
    done = subprocess.run(
        [analyze, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
