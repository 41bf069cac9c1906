"""Version 2 keeps tasks from the GPUs that they were not given, for real: by a program in the kernel."""

import errno
import functools
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.runner.conftest import Machine
from tests.runner.version_2 import Tree, needs_mount
from tgpu.cli import isolation_checks
from tgpu.cli.findings import OK, WARN
from tgpu.runner import isolation
from tgpu.runner.cgroups import fence
from tgpu.runner.cgroups.bounds import Bounds
from tgpu.runner.cgroups.detect import detect
from tgpu.runner.cgroups.groups import Cgroups
from tgpu.runner.cgroups.unified import Unified
from tgpu.runner.limits import Limits

ZERO, FULL, URANDOM = 5, 7, 9
A_LOOK = """
for n in 0 1 ctl; do (: < {0}/nvidia$n) 2>/dev/null && echo $n; done
mknod {0}/made c 1 7 2>/dev/null && echo made && rm {0}/made
echo cuda:$CUDA_VISIBLE_DEVICES
"""


@pytest.fixture
def machine(tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """With two GPUs and version 2 alone. The device files lead to others that every machine has."""
    for name, minor in (("nvidia0", ZERO), ("nvidia1", FULL), ("nvidiactl", URANDOM)):
        os.mknod(tmp_path / name, 0o666 | 0o020000, os.makedev(1, minor))
    tree.stand_in(tree.group("an-agent"))
    monkeypatch.setattr(
        isolation, "detect", lambda cluster, scope: detect(cluster, str(tree.proc), scope=scope)
    )
    made = Machine(tmp_path, cgroups=True, devices_dir=tmp_path)
    made.open()
    yield made
    made.close()
    made.loop.close()
    assert [folder.name for folder in (tree.top / "an-agent").iterdir() if folder.is_dir()] == ["tgpu-agent"]


@needs_mount
def test_a_gpu_that_was_not_given_cannot_be_opened_nor_its_file_be_made(
    machine: Machine, tmp_path: Path
) -> None:
    assert dict(machine.runner.abilities())["devices"] == ""
    found = []
    for given, minors in (((0,), (0,)), ((1,), (1,)), ((), ()), ((1,), None)):
        env = {"PATH": os.defpath, "CUDA_VISIBLE_DEVICES": ",".join(map(str, given))}
        limits = Limits(devices=given, minors=minors)
        attempt = machine.shell(A_LOOK.format(tmp_path), env=env, limits=limits)
        assert machine.end_of(attempt).exit_code == 0
        found.append(machine.output(attempt).decode().split())
    assert found == [
        ["0", "ctl", "cuda:0"], ["1", "ctl", "made", "cuda:0"], ["ctl", "cuda:"],
        ["0", "1", "ctl", "made", "cuda:1"],
    ]  # fmt: skip


@needs_mount
def test_doctor_finds_out_by_trying_and_leaves_nothing(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.stand_in(tree.group("a-shell"))
    here = functools.partial(detect, proc=str(tree.proc))
    monkeypatch.setattr("tgpu.runner.cgroups.detect.detect", here)
    monkeypatch.setenv("TGPU_HOME", str(tmp_path / "home"))
    found = {finding.name: finding for finding in isolation_checks.of_isolation()}
    assert (found["devices"].level, found["devices"].text) == (OK, "enforced")
    assert [folder.name for folder in (tree.top / "a-shell").iterdir() if folder.is_dir()] == ["tgpu-agent"]
    monkeypatch.setattr(fence, "keep_from", refuse)
    found = {finding.name: finding for finding in isolation_checks.of_isolation()}
    assert found["devices"].level == WARN
    assert "keeps tasks from devices (Operation not permitted)" in found["devices"].text


def refuse(group: int, barred: list[str]) -> None:  # noqa: ARG001  as the kernel does in a container
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


@needs_mount
def test_it_holds_for_whoever_is_let_in_and_for_groups_below(tree: Tree) -> None:
    outer, inner = tree.group("1.0.1"), tree.group("1.0.1/made-by-the-task")
    group = os.open(outer, os.O_RDONLY)
    fence.keep_from(group, [f"1:{FULL}"])
    os.close(group)
    child = os.fork()
    if child == 0:
        (inner / "cgroup.procs").write_text("0")
        opened = 0
        for name in ("zero", "full"):
            try:
                os.close(os.open(f"/dev/{name}", os.O_RDONLY))
                opened += 1 if name == "zero" else 10
            except PermissionError:
                continue
        os._exit(opened)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_where_the_kernel_does_not_let_us_it_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    assert fence.why_not(str(tmp_path)) in {"Bad file descriptor", "Operation not permitted"}
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_started_without_the_fence_that_was_promised(tmp_path: Path) -> None:
    base = str(tmp_path)
    enclosure = Unified(
        Cgroups(2, {"": base, "devices": base}, {}), SimpleNamespace(tasks="0", supervisors="0")
    )
    with pytest.raises(OSError, match="the kernel fences off no GPUs: "):
        enclosure.prepare("1.0.1", Bounds(barred=["195:1"]))
    enclosure.release()
    enclosure.prepare("2.0.1", Bounds(barred=[]))
    enclosure.release()
    assert list(tmp_path.iterdir()) == []


def test_the_program_asks_for_each_device_in_turn() -> None:
    one, three = fence.program(["195:0"]), fence.program(["195:0", "195:1", "195:255"])
    assert len(three) - len(one) == 2 * 4 * 8
    assert one[-16:] == three[-16:], "what is not barred is allowed in the end"
