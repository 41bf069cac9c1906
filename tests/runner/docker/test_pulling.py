"""Images from a registry: fetched once, told how far, pinned, and refused in words."""

import base64
import json
from collections.abc import Iterator

import pytest

from tests.docker_engine import IMAGE, tools
from tests.fake_registry import FakeRegistry
from tests.runner.docker.conftest import ContainerNode
from tgpu.domain.container import Pull
from tgpu.domain.lifecycle import Cause
from tgpu.runner.docker import pulling
from tgpu.runner.docker.resolving import ImageFound


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.close()


def resolved(node: ContainerNode, image: str, *, local: bool = False) -> ImageFound:
    return node.loop.run_until_complete(node.runner.resolve(image, local=local))


def test_an_image_is_fetched_and_the_way_is_told(node: ContainerNode, registry: FakeRegistry) -> None:
    registry.push("team/train", "1", tools("from the registry"))
    registry.pause_s = 0.3
    attempt = node.shell("cat /etc/marker", image=f"{registry.host}/team/train:1")
    assert node.end_of(attempt).exit_code == 0
    assert node.output(attempt) == b"from the registry"
    assert node.notes_of(attempt)[0] == "pulling its image"


def test_what_is_pinned_runs_whatever_the_tag_means_by_then(
    node: ContainerNode, registry: FakeRegistry
) -> None:
    name = f"{registry.host}/team/train"
    first = registry.push("team/train", "1", tools("first"))
    assert resolved(node, f"{name}:1") == ImageFound(pinned=f"{name}@{first}")
    registry.push("team/train", "1", tools("second"))
    attempt = node.shell("cat /etc/marker", image=f"{name}:1", digest=f"{name}@{first}")
    node.end_of(attempt)
    assert node.output(attempt) == b"first"


def test_pull_always_asks_again_and_missing_does_not(node: ContainerNode, registry: FakeRegistry) -> None:
    image = f"{registry.host}/train:1"
    for marker, pull, seen in (("a", None, "a"), ("b", Pull.MISSING, "a"), ("c", Pull.ALWAYS, "c")):
        registry.push("train", "1", tools(marker))
        _, text = node.run("cat /etc/marker", image=image, pull=pull or Pull.MISSING)
        assert text == seen


def test_images_that_are_not_there_or_not_for_us(node: ContainerNode, registry: FakeRegistry) -> None:
    registry.push("train", "1", tools("x"))
    end, _ = node.run("true", image=f"{registry.host}/train:nosuch")
    assert end.cause is Cause.COULD_NOT_START
    assert f"there is no image {registry.host}/train:nosuch at {registry.host}" in end.detail
    assert "there is no image" in resolved(node, f"{registry.host}/train:nosuch").missing
    registry.password = "right"
    end, _ = node.run("true", image=f"{registry.host}/train:1")
    assert end.cause is Cause.COULD_NOT_START
    assert f"credentials in {node.credentials} are missing or wrong" in end.detail
    for password in ("wrong", "right"):
        encoded = base64.b64encode(f"ann:{password}".encode()).decode()
        node.credentials.write_text(json.dumps({"auths": {registry.host: {"auth": encoded}}}))
        end, _ = node.run("true", image=f"{registry.host}/train:1")
        assert (end.exit_code == 0) is (password == "right")
    assert resolved(node, f"{registry.host}/train:1").pinned


def test_a_registry_that_cannot_be_reached_is_tried_again(
    node: ContainerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulling, "PAUSES_S", (0.1, 0.1))
    attempt = node.shell("true", image="127.0.0.1:1/train:1")
    end = node.end_of(attempt)
    assert end.cause is Cause.COULD_NOT_START
    assert "the registry 127.0.0.1:1 of the image 127.0.0.1:1/train:1 cannot be reached" in end.detail
    again = [note for note in node.notes_of(attempt) if "trying again" in note]
    assert len(again) == 2
    assert resolved(node, "127.0.0.1:1/train:1") == ImageFound()


def test_an_image_that_only_this_node_has_is_known_by_its_id(node: ContainerNode) -> None:
    found = resolved(node, IMAGE, local=True)
    assert found == ImageFound(here=node.engine.ask("GET", f"/images/{IMAGE}/json")["Id"])
    attempt = node.shell("echo by id", digest=found.here)
    node.end_of(attempt)
    assert node.output(attempt) == b"by id\n"
    assert resolved(node, "nosuch:1", local=True) == ImageFound()


def test_one_that_is_stopped_while_its_image_is_fetched(node: ContainerNode, registry: FakeRegistry) -> None:
    registry.push("slow", "1", tools("slow"))
    registry.pause_s = 2.0
    attempt = node.shell("true", image=f"{registry.host}/slow:1")
    node.until(lambda: node.notes_of(attempt))
    node.runner.stop(attempt, Cause.CANCELLED, "")
    end = node.end_of(attempt, 1.5)
    assert (end.cause, end.started_ms) == (Cause.CANCELLED, None)
