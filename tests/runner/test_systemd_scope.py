"""An agent that was started by hand asks systemd for a scope; it may say no, or nothing."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runner.test_cgroup import a_tree, on_paper
from tests.runner.version_2 import Tree, needs_mount
from tgpu.runner.cgroups.detect import NO_SCOPE, NOT_DELEGATED, detect
from tgpu.runner.cgroups.scope import Scope, scope_name

ROOT = Path(__file__).parents[2]
SESSION = "user.slice/user-0.slice/session-3.scope"


class Started:
    """A process that says how it fares."""

    def __init__(self, *words: str, **env: str) -> None:
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, **env}
        )

    def wait_for(self, pattern: str) -> str:
        for line in self.process.stdout:
            if re.search(pattern, line):
                return line
        raise AssertionError(f"never said {pattern}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Systemd:
    """Its stand-in, on a real bus."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.slice = tree.group("system.slice")
        self.bus = Started("dbus-daemon", "--session", "--nofork", "--print-address")
        self.address = self.bus.process.stdout.readline().strip()
        module = "tests.runner.stand_in_systemd"
        self.service = Started(
            sys.executable, "-m", module, str(self.slice), DBUS_SYSTEM_BUS_ADDRESS=self.address
        )
        self.service.wait_for("ready")
        self.agents: list[Started] = []

    def agent(self, home: Path, session: str, *scripts: str) -> Started:
        words = (str(home), str(self.tree.proc), str(self.tree.group(session)), *scripts)
        agent = Started(
            sys.executable, "-m", "tests.runner.scoped_agent", *words, DBUS_SYSTEM_BUS_ADDRESS=self.address
        )
        self.agents.append(agent)
        return agent

    def asked(self) -> list[Any]:
        return json.loads(self.service.process.stdout.readline())

    def close(self) -> None:
        for started in (*self.agents, self.service, self.bus):
            started.kill()


@pytest.fixture
def systemd(tree: Tree) -> Iterator[Systemd]:
    started = Systemd(tree)
    yield started
    started.close()


@needs_mount
def test_it_gets_one_in_which_its_tasks_outlive_it_and_the_next_agent_joins_it(
    systemd: Systemd, tree: Tree, tmp_path: Path
) -> None:
    name = scope_name("c1", str(tmp_path / "records"))
    first = systemd.agent(tmp_path, "session-1.scope", "sleep 600")
    assert "[]" in first.wait_for("^open")
    first.wait_for("AttemptStarted")
    pid = first.process.pid
    assert systemd.asked() == ["AttachProcessesToUnit", name, "/tgpu-agent", [pid]]
    method, unit, _, properties, _ = systemd.asked()
    assert (method, unit) == ("StartTransientUnit", name)
    assert dict(properties)["Delegate"] == ["b", True]
    agents, tasks = f"system.slice/{name}/tgpu-agent", f"system.slice/{name}/tgpu-c1/1.0.1"
    members = tree.members()
    assert pid in members[agents]
    assert sorted(members) == [agents, tasks]
    first.kill()
    second = systemd.agent(tmp_path, "session-2.scope")
    assert "AttemptStarted(attempt='1.0.1'" in second.wait_for("^open")
    assert systemd.asked() == ["AttachProcessesToUnit", name, "/tgpu-agent", [second.process.pid]]
    after = tree.members()
    assert second.process.pid in after[agents]
    assert after[tasks] == members[tasks]


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where to put a busctl that behaves as the test wants."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder / "busctl"


def found_in(tmp_path: Path, scope: Scope) -> tuple[dict[str, str], str]:
    own = a_tree(tmp_path, SESSION)
    mounts = f"cgroup2 {tmp_path}/cg cgroup2 rw,nosuid 0 0\n"
    found = detect("c1", on_paper(tmp_path, mounts, f"0::/{SESSION}\n"), scope=scope)
    assert found.cgroups.bases == {"": str(own / "tgpu-c1")}
    return found.why


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'Call failed: Access denied' >&2; exit 1", "Call failed: Access denied"),
        ("exit 3", "busctl ended with 3"),
        ("exec sleep 60", "it has not answered within 0.2 s"),
        ("exit 0", "it has not moved us there within 0.2 s"),
    ],
)
def test_if_it_says_no_or_nothing_all_stays_as_it_was(
    tmp_path: Path, on_path: Path, script: str, why: str
) -> None:
    on_path.write_text(f"#!/bin/sh\n{script}\n")
    on_path.chmod(0o755)
    scope = Scope("tgpu-c1.scope", systemd=str(tmp_path), patience_s=0.2)
    assert found_in(tmp_path, scope) == NOT_DELEGATED + NO_SCOPE.format(why)


def test_without_a_way_to_ask_it_says_what_is_missing(
    tmp_path: Path, on_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(on_path.parent))
    scope = Scope("tgpu-c1.scope", systemd=str(tmp_path))
    why = "to ask it takes busctl: No such file or directory"
    assert found_in(tmp_path, scope) == NOT_DELEGATED + NO_SCOPE.format(why)


def test_where_systemd_does_not_run_nobody_is_asked(tmp_path: Path) -> None:
    scope = Scope("tgpu-c1.scope", systemd=str(tmp_path / "none"))
    assert found_in(tmp_path, scope) == NOT_DELEGATED + NO_SCOPE.format("systemd does not run here")


def test_a_users_own_agent_asks_the_users_own_systemd(
    tmp_path: Path, on_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path.write_text(f'#!/bin/sh\necho "$XDG_RUNTIME_DIR $*" > {tmp_path}/said\nexit 1\n')
    on_path.chmod(0o755)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    Scope("tgpu-c1.scope", systemd=str(tmp_path)).join("tgpu-agent", lambda: "/")
    said = (tmp_path / "said").read_text()
    assert said.startswith(f"/run/user/{os.getuid()} --user --timeout=5 call org.freedesktop.systemd1 ")


def test_each_home_and_cluster_has_one_of_its_own() -> None:
    names = {scope_name(cluster, home) for cluster in ("a", "b") for home in ("/x/agent/a", "/y/agent/a")}
    assert len(names) == 4
    assert scope_name("a", "/x/agent/a") == scope_name("a", "/x/agent/a")
