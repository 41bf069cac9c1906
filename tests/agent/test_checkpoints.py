"""An agent looks when tasks saved their work, and clears away folders that nobody uses any more."""

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import tgpu
from tgpu.agent import checkpoints
from tgpu.agent.checkpoints import NodeCheckpoints
from tgpu.agent.machine import Machine, SendReport
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.protocol.messages import Phase
from tgpu.runner import checkpoint_folder
from tgpu.runner.port import AttemptEnded, AttemptStarted

DAY_S = 86400.0
NOW_S = 2_000_000_000.0


def node(root: Path, keep_s: float = 7 * DAY_S) -> NodeCheckpoints:
    made = NodeCheckpoints(root, keep_s, lambda: NOW_S)
    made.use_cluster("c1")
    return made


def save(root: Path, task: str, at_s: float) -> Path:
    folder = root / "c1" / task
    folder.mkdir(parents=True, exist_ok=True)
    (folder / checkpoint_folder.SIGN).touch()
    os.utime(folder / checkpoint_folder.SIGN, (at_s, at_s))
    os.utime(folder, (at_s, at_s))
    return folder


def test_each_task_has_a_folder_of_its_own_whichever_attempt_it_is(tmp_path: Path) -> None:
    there = node(tmp_path)
    own = str(tmp_path / "c1" / "a%2Eb" / "42.3")
    assert there.folder_of("42.3.1", "a.b") == there.folder_of("42.3.2", "a.b") == own
    assert NodeCheckpoints(tmp_path, 1).folder_of("42.3.1", "ann") == "", (
        "before it is known for which cluster"
    )


def test_a_look_tells_when_work_was_saved_and_another_agent_sees_the_same(tmp_path: Path) -> None:
    save(tmp_path, "1.0", 1000.5)
    running = ["1.0.2", "2.0.1"]
    assert asyncio.run(node(tmp_path).look(running)) == {"1.0.2": 1_000_500}
    assert asyncio.run(node(tmp_path).look(running)) == {"1.0.2": 1_000_500}
    assert asyncio.run(node(tmp_path).look([])) == {}


def test_folders_of_users_and_those_of_older_versions_are_found(tmp_path: Path) -> None:
    save(tmp_path, "ann/1.0", 1000.0)
    save(tmp_path, "bob/2.0", 2000.0)
    save(tmp_path, "3.0", 3000.0)
    there = node(tmp_path)
    found = asyncio.run(there.look(["1.0.2", "2.0.1", "3.0.1"]))
    assert found == {"1.0.2": 1_000_000, "2.0.1": 2_000_000, "3.0.1": 3_000_000}

    async def sweep() -> int:
        await there.look(["2.0.1"])
        return await there.sweep()

    assert asyncio.run(sweep()) == 2
    assert [path.name for path in (tmp_path / "c1").rglob("*.0")] == ["2.0"]


def test_a_drive_that_hangs_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs, looks = threading.Event(), []

    def saved(folder: str) -> int | None:
        looks.append(folder)
        hangs.wait(60)
        return 5

    async def story() -> None:
        there = node(tmp_path)
        assert await there.look(["1.0.1"]) == {}
        assert await there.look(["1.0.1"]) == {}
        assert len(looks) == 1, "one look at a time"
        hangs.set()
        monkeypatch.setattr(checkpoints, "PATIENCE_S", 60)
        assert await there.look(["1.0.1"]) == {"1.0.1": 5}

    monkeypatch.setattr(checkpoint_folder, "saved_ms", saved)
    monkeypatch.setattr(checkpoints, "PATIENCE_S", 0.01)
    asyncio.run(story())


def test_news_of_a_save_is_reported_once_until_the_next() -> None:
    machine = Machine()
    machine.greeted(1)
    machine.runner_said(AttemptStarted("1.0.1", 10))
    machine.report(0)
    machine.saved({"1.0.1": 50, "9.0.1": 50})
    (report,) = machine.report(0)
    assert isinstance(report, SendReport)
    assert [(said.attempt, said.phase, said.checkpoint_ms) for said in report.attempts] == [
        ("1.0.1", Phase.RUNNING, 50)
    ]
    machine.saved({"1.0.1": 50})
    assert machine.report(0) == []
    assert machine.greeted(2)[0].checkpoint_ms == 50, "to a new leader all is said again"
    machine.runner_said(AttemptEnded("1.0.1", Exit(Cause.EXITED, exit_code=0)))
    machine.report(0)
    machine.saved({"1.0.1": 60})
    assert machine.report(0) == []
    assert machine.running() == []


def test_only_what_nobody_has_touched_for_long_is_removed(tmp_path: Path) -> None:
    old, new = NOW_S - 8 * DAY_S, NOW_S - 6 * DAY_S
    gone, kept, runs, deep = (save(tmp_path, f"{n}.0", old) for n in (1, 2, 3, 4))
    os.utime(kept, (new, new))
    (deep / "epochs").mkdir()
    (deep / "epochs" / "9").touch()
    os.utime(deep / "epochs" / "9", (new, new))
    for path in (deep / "epochs", deep):
        os.utime(path, (old, old))
    strange = tmp_path / "c1" / "notes"
    strange.mkdir()
    linked = tmp_path / "c1" / "5.0"
    linked.symlink_to(tmp_path)
    for path in (strange, linked):
        os.utime(path, (old, old), follow_symlinks=False)

    async def story() -> None:
        there = node(tmp_path)
        assert await there.sweep() == 0, "nobody has said yet what runs"
        assert gone.exists()
        await there.look(["3.0.2"])
        assert await there.sweep() == 1

    asyncio.run(story())
    left = {path.name for path in (tmp_path / "c1").iterdir()}
    assert left == {kept.name, runs.name, deep.name, "notes", "5.0"}
    assert runs.stat().st_mtime != old, "other nodes that share it see that it is in use"


@pytest.fixture
def quick() -> Iterator[Path]:
    """In memory: very many folders take a disk its time."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def test_one_that_is_nested_without_end_harms_no_agent_and_goes(quick: Path) -> None:
    folder = save(quick, "1.0", NOW_S - 9 * DAY_S)
    here = os.open(folder, os.O_RDONLY)
    for _ in range(1100):  # deeper than a path and a stack of calls reach
        os.mkdir("deep", dir_fd=here)
        below = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.utime(here, (1, 1))
        os.close(here)
        here = below
    os.utime(here, (1, 1))
    os.close(here)

    async def story() -> int:
        there = node(quick)
        await there.look([])
        return await there.sweep()

    assert asyncio.run(story()) == 1
    assert not folder.exists()


def test_what_a_removed_folder_links_to_stays(tmp_path: Path) -> None:
    treasure = tmp_path / "treasure"
    treasure.mkdir()
    (treasure / "gold").touch()
    folder = save(tmp_path, "1.0", NOW_S - 9 * DAY_S)
    (folder / "link").symlink_to(treasure)
    for path in (folder / "link", folder):
        os.utime(path, (1, 1), follow_symlinks=False)

    async def story() -> int:
        there = node(tmp_path)
        await there.look([])
        return await there.sweep()

    assert asyncio.run(story()) == 1
    assert (treasure / "gold").exists()
    assert not folder.exists()


def test_a_program_says_that_its_work_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sign = tmp_path / "sign"
    monkeypatch.delenv(checkpoint_folder.FILE, raising=False)
    assert tgpu.checkpointed() is False, "outside of tgpu"
    monkeypatch.setenv(checkpoint_folder.FILE, str(sign))
    assert tgpu.checkpointed() is True
    os.utime(sign, (1, 1))
    assert tgpu.checkpointed() is True
    assert sign.stat().st_mtime > 1
    monkeypatch.setenv(checkpoint_folder.FILE, str(tmp_path / "nowhere" / "sign"))
    assert tgpu.checkpointed() is False


def test_to_import_it_costs_a_program_next_to_nothing() -> None:
    script = "import sys; before = set(sys.modules); import tgpu; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["tgpu", "tgpu.checkpoint"]
