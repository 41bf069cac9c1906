"""`tgpu doctor`: what is wrong here, and which settings hold."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from fake_tgpu import FakeTgpu, Refusal

from tests.cli.cli_process import Tgpu
from tgpu.config.settings import Settings
from tgpu.runner import private_tmp
from tgpu.wiring import home_in_tmp


def test_doctor_says_what_is_wrong_and_what_to_do(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/nodes"] = {"nodes": [{"node_id": "n1", "status": "ready", "gpu_total": 4}]}
    well = tgpu("doctor")
    assert well.returncode == 0, well.stdout
    assert "ok    server" in well.stdout
    assert "1 of 1 ready, with 4 GPUs" in well.stdout
    server.stop()
    ill = tgpu("doctor", "--json")
    assert ill.returncode == 1
    failed = [check for check in json.loads(ill.stdout) if check["level"] == "FAIL"]
    assert [check["name"] for check in failed] == ["server"]
    assert "left over from one that died" in failed[0]["text"]
    assert failed[0]["advice"] == "start it again: `tgpu up`"


def test_doctor_warns_of_a_node_that_is_not_connected(server: FakeTgpu, tgpu: Tgpu) -> None:
    node = {"node_id": "vm", "status": "ready", "gpu_total": 4, "silent_s": 60.0}
    server.fixed["/nodes"] = {"nodes": [node]}
    done = tgpu("doctor")
    assert "warn  nodes     vm is not connected → start the agent there\n" in done.stdout
    assert done.returncode == 0
    server.fixed["/nodes"] = {"nodes": [node | {"silent_s": 3.0}]}
    done = tgpu("doctor")
    assert "warn  nodes     vm is coming back, heard within the last 30 s → look again" in done.stdout
    assert "is not connected" not in done.stdout


def test_doctor_looks_for_gpus_only_where_something_may_run(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/nodes"] = {"nodes": [{"node_id": "n1", "status": "ready"}]}
    names = ("gpus", "cpu limit", "containers")
    here = {check["name"] for check in json.loads(tgpu("doctor", "--json").stdout)}
    assert here.issuperset(names), "whoever has started nothing yet may start it here"
    elsewhere = tgpu("doctor", "--json", TGPU_SERVER="http://127.0.0.1:1").stdout
    assert not {check["name"] for check in json.loads(elsewhere)}.intersection(names)


def test_doctor_counts_gpus_that_only_nvidia_smi_finds(server: FakeTgpu, tgpu: Tgpu, tmp_path: Path) -> None:
    server.fixed["/nodes"] = {"nodes": [{"node_id": "n1", "status": "ready"}]}
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\nprintf '0\\n1\\n'\n")
    smi.chmod(0o755)
    done = tgpu("doctor", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert "ok    gpus      2 GPUs seen through nvidia-smi" in done.stdout


def test_doctor_where_nothing_is_names_both_ways_to_begin(tgpu: Tgpu, tmp_path: Path) -> None:
    report = json.loads(tgpu("doctor", "--json", TGPU_HOME=str(tmp_path / "none")).stdout)
    (advice,) = [check["advice"] for check in report if check["name"] == "server"]
    assert "`tgpu up`" in advice
    assert "`tgpu agent --server https://HOST:7480 --join TOKEN`" in advice


def test_doctor_says_what_the_server_finds_wrong(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/nodes"] = {"nodes": [{"node_id": "n1", "status": "ready"}]}
    server.fixed["/stats"] = {"alerts": [{"name": "picture-drift", "text": "report a bug", "since": "x"}]}
    done = tgpu("doctor")
    assert "warn  alert     picture-drift: report a bug\n" in done.stdout
    assert done.returncode == 0


def test_doctor_warns_if_others_are_served_and_cannot_run_it(
    server: FakeTgpu, tgpu: Tgpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.fixed["/nodes"] = {"nodes": [{"node_id": "n1", "status": "ready"}]}
    python = tmp_path / "closed" / "python"
    python.parent.mkdir()
    python.touch(0o755)
    python.parent.chmod(0o700)
    monkeypatch.setattr("sys.executable", str(python))
    assert "ok    python" in tgpu("doctor", TGPU_PUBLIC_SOCKET="off", TGPU_PRIVATE_TMP="off").stdout
    done = tgpu("doctor", TGPU_PUBLIC_SOCKET=str(tmp_path / "public.sock"))
    assert "warn  python" in done.stdout
    assert "is closed to them → move this tree where all may read" in done.stdout


def test_doctor_warns_of_a_tgpu_that_jobs_cannot_see(
    server: FakeTgpu, tgpu: Tgpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.fixed["/nodes"] = {"nodes": [{"node_id": "n1", "status": "ready"}]}
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("tgpu.runner.private_tmp.SHARED", ("/shared",))
    monkeypatch.setattr("sys.executable", "/shared/venv/bin/python")
    said = "jobs have a /shared of their own and cannot see /shared/venv/bin/python: `tgpu`, `srun` and"
    shown = tgpu("doctor", TGPU_PUBLIC_SOCKET="off").stdout
    assert said in next(line for line in shown.splitlines() if line.startswith("warn  python"))
    assert said in (home_in_tmp.beware(Settings(home=tmp_path)) or "")
    assert "ok    python" in tgpu("doctor", TGPU_PUBLIC_SOCKET="off", TGPU_PRIVATE_TMP="off").stdout


def test_doctor_checks_the_address_to_listen_on(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/nodes"] = {"nodes": [{"node_id": "n1", "status": "ready"}]}
    done = tgpu("doctor", TGPU_LISTEN="0.0.0.0:7480")
    assert (
        "FAIL  settings  listen = '0.0.0.0:7480' is reached from other machines, which needs TLS"
        in done.stdout
    )
    assert done.returncode == 1


def test_doctor_names_nodes_that_wait_for_approval(server: FakeTgpu, tgpu: Tgpu) -> None:
    new = {"node_id": "n2", "status": "offline", "approval": {"since": "", "token_id": 1, "address": None}}
    server.fixed["/nodes"] = {"nodes": [{"node_id": "n1", "status": "ready"}, new]}
    said = tgpu("doctor").stdout
    assert "waiting for approval: n2 → `tgpu nodes approve NODE`" in said
    assert "offline: n2" not in said


def test_doctor_fails_a_password_that_others_can_read(server: FakeTgpu, tgpu: Tgpu, tmp_path: Path) -> None:
    server.fixed["/nodes"] = {"nodes": [{"node_id": "n1", "status": "ready"}]}
    file = tmp_path / "settings.toml"
    for text, mode, fails in (
        ('store = "postgresql://tgpu:secret@db/tgpu"\n', 0o644, True),
        ('store = "postgresql://tgpu@db/tgpu?password=secret"\n', 0o640, True),
        ('store = "postgresql://tgpu:secret@db/tgpu"\n', 0o600, False),
        ('store = "postgresql://tgpu@db:5432/tgpu"\n', 0o644, False),
    ):
        file.write_text(text)
        file.chmod(mode)
        done = tgpu("doctor", TGPU_CONFIG=str(file))
        said = (
            f"FAIL  settings  {file} holds the database's password and can be read by other users → chmod 600"
        )
        assert (said in done.stdout, done.returncode) == (fails, int(fails)), done.stdout


@pytest.mark.parametrize(
    ("head", "level"), [(b"SQLite format 3\0\x10\0", "ok"), (b"", "ok"), (b"\0" * 100, "FAIL")]
)
def test_doctor_looks_at_the_database_if_no_server_answers(
    tgpu: Tgpu, tmp_path: Path, head: bytes, level: str
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "tgpu.db").write_bytes(head)
    found = {check["name"]: check for check in json.loads(tgpu("doctor", "--json").stdout)}
    assert found["database"]["level"] == level
    assert ("move it away" in found["database"]["advice"]) == (level == "FAIL")
    assert [path.name for path in home.iterdir()] == ["tgpu.db"]


def test_doctor_lists_every_setting_with_its_source(tgpu: Tgpu) -> None:
    text = tgpu("doctor", "--settings", TGPU_POLICY="fifo").stdout
    assert text.startswith(
        "No server answers: these are the settings with which `tgpu up` would start one here.\n"
    )
    assert "policy = 'fifo'  (TGPU_POLICY)" in text
    assert "log_level = 'info'  (default)" in text
    bad = tgpu("doctor", "--settings", TGPU_PREEMPTION="x")
    assert (bad.returncode, bad.stderr) == (2, "tgpu: preemption must be one of on, off; got 'x'\n")


def test_doctor_lists_the_servers_settings_if_one_tells_them(server: FakeTgpu, tgpu: Tgpu) -> None:
    row = {"name": "policy", "value": "priority", "source": "the TOML file", "doc": "Order of the queue."}
    server.fixed["/settings"] = {"settings": [row]}
    done = tgpu("doctor", "--settings", TGPU_POLICY="fifo", TGPU_PREEMPTION="broken here")
    head, setting, _ = done.stdout.splitlines()
    assert head.startswith("Settings of the server at ")
    assert head.endswith("/run/tgpu.sock:")
    assert setting == "policy = 'priority'  (the TOML file)"
    assert json.loads(tgpu("doctor", "--settings", "--json").stdout) == [{**row, "of": "server"}]
    server.fixed["/settings"] = Refusal(403, "only administrators may do this; ann is none")
    text = tgpu("doctor", "--settings", TGPU_POLICY="fifo").stdout
    assert "does not tell you its settings (only administrators may do this; ann is none)" in text
    assert "policy = 'fifo'  (TGPU_POLICY)" in text
    here = json.loads(tgpu("doctor", "--settings", "--json").stdout)
    assert {row["of"] for row in here} == {"here"}


def test_doctor_lists_what_a_pool_has_of_its_own(tgpu: Tgpu, tmp_path: Path) -> None:
    file = tmp_path / "pools.toml"
    file.write_text('[pools.training]\npolicy = "fair-tree"\nreserve = 3\n')
    text = tgpu("doctor", "--settings", TGPU_CONFIG=str(file)).stdout
    assert "pools.training = {'policy': 'fair-tree', 'reserve': 3}  (the TOML file)" in text


def test_doctor_leaves_out_what_its_user_may_not_read(
    server: FakeTgpu, tgpu: Tgpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a home that is root's, whose agent's folder is closed."""
    server.fixed["/nodes"] = {"nodes": [{"node_id": "n1", "status": "ready"}]}
    closed = tmp_path / "home" / "agent"
    closed.mkdir()
    really_there = Path.exists

    def exists(path: Path) -> bool:
        if path.parent == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return really_there(path)

    monkeypatch.setattr(Path, "exists", exists)
    done = tgpu("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    assert "ok    server" in done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's jobs get a /tmp of their own")
def test_doctor_warns_of_a_home_that_jobs_cannot_see(tgpu: Tgpu, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(exist_ok=True)
    assert not private_tmp.is_for(str(tmp_path)), "tests run below /tmp"
    said = f"warn  home      jobs have a /tmp of their own and cannot see {tmp_path / 'home'}"
    assert said in tgpu("doctor").stdout
    seen = tgpu("doctor", TGPU_PRIVATE_TMP="off").stdout
    assert said not in seen
    assert f"warn  home      other users cannot reach {tmp_path / 'home'}, because /tmp/pytest-of-" in seen
    shm = Path(tempfile.mkdtemp(dir="/dev/shm"))
    try:
        said = tgpu("doctor", TGPU_HOME=str(shm)).stdout
        assert f"warn  home      jobs have a /dev/shm of their own and cannot see {shm}" in said
    finally:
        shutil.rmtree(shm)
