"""Tasks of gangs are got ready before any of them starts: what can fail, fails then."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker_engine import tools
from tests.fake_registry import FakeRegistry
from tests.runner.docker.conftest import ContainerNode
from tests.small_disk import SmallDisk, needs_root, small_disk  # noqa: F401  a fixture
from tgpu.domain.container import HOSTFILE, Mount, Pull
from tgpu.domain.lifecycle import Cause
from tgpu.runner.checkpoint_folder import variables
from tgpu.runner.disk_words import DISK_FULL
from tgpu.runner.docker import readying
from tgpu.runner.port import CouldNotPrepareError, LaunchSpec


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.close()


def why_not(node: ContainerNode, spec: LaunchSpec) -> str:
    with pytest.raises(CouldNotPrepareError) as refused:
        node.wait_for(node.runner.prepare(spec))
    assert refused.value.cause is Cause.COULD_NOT_START
    assert node.containers() == []
    return str(refused.value)


def test_the_image_is_here_before_it_starts_and_is_not_asked_for_again(
    node: ContainerNode, registry: FakeRegistry
) -> None:
    registry.push("team/train", "1", tools("ready"))
    registry.pause_s = 0.3
    spec = node.spec("cat", "/etc/marker", image=f"{registry.host}/team/train:1", pull=Pull.ALWAYS)
    node.wait_for(node.runner.prepare(spec))
    assert node.notes_of(spec.attempt)[0] == "pulling its image"
    assert node.containers() == []
    asked = len(registry.asked)
    registry.push("team/train", "1", tools("too late"))
    node.runner.launch(spec)
    assert node.end_of(spec.attempt).exit_code == 0
    assert node.output(spec.attempt) == b"ready"
    assert len(registry.asked) == asked


def test_one_whose_image_went_between_ready_and_go_fetches_it_again(
    node: ContainerNode, registry: FakeRegistry
) -> None:
    registry.push("team/gone", "1", tools("again"))
    image = f"{registry.host}/team/gone:1"
    spec = node.spec("cat", "/etc/marker", image=image)
    node.wait_for(node.runner.prepare(spec))
    node.engine.ask("DELETE", f"/images/{image}?force=1")
    node.runner.launch(spec)
    assert node.end_of(spec.attempt).exit_code == 0
    assert node.output(spec.attempt) == b"again"


def test_images_mounts_and_what_the_engine_refuses_are_told_before(
    node: ContainerNode, registry: FakeRegistry
) -> None:
    missing = why_not(node, node.spec("true", image=f"{registry.host}/train:nosuch"))
    assert f"there is no image {registry.host}/train:nosuch" in missing
    assert "mount_allow" in why_not(node, node.spec("true", mounts=(Mount("/etc", "/data"),)))
    here = str(node.home)
    twice = why_not(node, node.spec("true", mounts=(Mount(here, "/data"), Mount(here, "/data"))))
    assert twice.startswith("the container engine refused: ")
    assert "uplicate mount point: /data" in twice, "in the engine's own words"
    never = why_not(node, node.spec("true", image="nosuch:1", pull=Pull.NEVER))
    assert "--pull never" in never


def test_an_engine_that_is_away_is_not_the_tasks_doing(
    node: ContainerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readying, "AWAY_S", 0.05)
    node.runner._keeper._find = lambda: None
    node.loop.call_soon(node.runner._keeper.lost)
    node.until(lambda: not node.runner._keeper.is_present)
    with pytest.raises(CouldNotPrepareError, match="did not answer") as refused:
        node.wait_for(node.runner.prepare(node.spec("true")))
    assert refused.value.cause is Cause.NODE_LOST


def test_one_that_is_dropped_while_its_image_comes_says_no_more(
    node: ContainerNode, registry: FakeRegistry
) -> None:
    registry.push("slow", "1", tools("slow"))
    registry.pause_s = 1.0
    image = f"{registry.host}/slow:1"
    spec = node.spec("cat", "/etc/marker", image=image)

    preparing = node.loop.create_task(node.runner.prepare(spec))
    node.until(lambda: node.notes_of(spec.attempt))
    node.runner.drop(spec.attempt)
    said = len(node.events)
    with pytest.raises(CouldNotPrepareError):
        node.wait_for(preparing)
    # It comes all the same, for the next attempt.
    node.until(lambda: "Id" in node.engine.ask("GET", f"/images/{image}/json"))
    assert len(node.events) == said


def test_a_container_finds_the_file_of_hosts_and_cannot_write_it(node: ContainerNode, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("n1 slots=2\nn2 slots=2\n")
    script = f"cat {HOSTFILE}; echo x >> {HOSTFILE}"
    node.allow = ()
    node.close()
    node.open()
    for read_only in (False, True):
        end, text = node.run(script, hostfile=str(hosts), read_only=read_only)
        assert (end.exit_code, text) == (1, "n1 slots=2\nn2 slots=2\n")


@needs_root
def test_one_whose_checkpoint_folder_finds_no_space_is_started_elsewhere(
    node: ContainerNode,
    small_disk: SmallDisk,  # noqa: F811
) -> None:
    small_disk.use_up_inodes()
    where = str(small_disk.path / "checkpoints" / "c1" / "root" / "7.0")
    spec = node.spec("true", checkpoint_dir=where, env=variables(where))
    with pytest.raises(CouldNotPrepareError, match=DISK_FULL) as refused:
        node.wait_for(node.runner.prepare(spec))
    assert refused.value.cause is Cause.NODE_LOST
    node.runner.launch(spec)
    end = node.end_of(spec.attempt)
    assert (end.cause, end.detail) == (Cause.NODE_LOST, DISK_FULL)
