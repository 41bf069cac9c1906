"""The units that `--install-service` writes."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tgpu.wiring import service_unit
from tgpu.wiring.service_unit import Service


def lines_of(service: Service, home: Path = Path("/var/lib/tgpu")) -> list[str]:
    return service_unit.text(service, home).splitlines()


@pytest.mark.parametrize("service", Service)
def test_a_unit_starts_the_program_in_its_home_and_starts_it_again(service: Service) -> None:
    lines = lines_of(service)
    assert "Restart=always" in lines
    assert "Environment=TGPU_HOME=/var/lib/tgpu" in lines
    (start,) = [line for line in lines if line.startswith("ExecStart=")]
    program, _, word = start.removeprefix("ExecStart=").rpartition(" ")
    assert word == service
    assert Path(program).is_absolute()
    assert Path(program).exists()


@pytest.mark.parametrize("service", [Service.UP, Service.AGENT])
def test_a_restart_of_the_service_leaves_supervisors_alone(service: Service) -> None:
    assert {"KillMode=process", "Delegate=yes", "DelegateSubgroup=tgpu-agent"} <= set(lines_of(service))


@pytest.mark.parametrize("service", Service)
def test_it_is_written_where_systemd_looks_and_says_what_to_type(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_unit, "path", lambda service: tmp_path / "system" / f"{service.unit}.service")
    home = tmp_path / "home"
    said = "\n".join(service_unit.install(service, home, flags={}))
    written = (tmp_path / "system" / f"{service.unit}.service").read_text()
    assert f"Environment=TGPU_HOME={home}" in written
    assert f"enable --now {service.unit}" in said
    assert not home.exists()


def test_flags_are_kept_where_only_the_owner_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_unit, "path", lambda service: tmp_path / f"{service.unit}.service")
    flags = {"TGPU_STORE": 'postgresql://u:pa$$"w@h/d', "TGPU_TLS": "auto"}
    service_unit.install(Service.SERVER, tmp_path / "home", flags=flags)
    file = tmp_path / "home" / "tgpu-server.env"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text() == 'TGPU_STORE="postgresql://u:pa\\$\\$\\"w@h/d"\nTGPU_TLS="auto"\n'
    unit = (tmp_path / "tgpu-server.service").read_text()
    assert f"EnvironmentFile=-{file}\n" in unit
    assert "pa$$" not in unit


@pytest.mark.parametrize("service", Service)
def test_systemd_itself_finds_nothing_wrong_with_it(service: Service, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    unit = tmp_path / f"{service.unit}.service"
    unit.write_text(service_unit.text(service, tmp_path))
    assert analyze is not None, "make test installs systemd"
    done = subprocess.run(
        [analyze, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
