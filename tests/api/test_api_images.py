"""Jobs with an image: what their names mean is found out once, and kept."""

import httpx
import pytest

from tests.api.conftest import ServerUnderTest, serving
from tgpu.api.image_rules import remark
from tgpu.api.job_form import JobAsked
from tgpu.api.job_rules import Defaults, spec_of
from tgpu.api.problems import ProblemError
from tgpu.core.rules import in_words
from tgpu.dialects.kubernetes.translation import path_of
from tgpu.domain.container import ImageMeaning
from tgpu.domain.job import LabelOp, LabelRule
from tgpu.domain.node_terms import CONTAINERS_LABEL
from tgpu.domain.priority import PriorityClass

PINNED = "ghcr.io/team/train@sha256:" + 64 * "a"
LOCAL = "sha256:" + 64 * "b"


def test_what_a_name_means_is_kept(client: httpx.Client, server: ServerUnderTest) -> None:
    server.live.images = {"ghcr.io/team/train:1": ImageMeaning(digest=PINNED)}
    asked = {
        "image": "ghcr.io/team/train:1",
        "mounts": ["/data:/data:ro"],
        "shm_size_mb": 64,
        "read_only": True,
        "network": "none",
        "pull": "always",
        "ignore_entrypoint": True,
        "container_cwd": "/app",
        "cwd": "/tmp",
    }
    job = client.post("/jobs", json=asked).raise_for_status().json()
    assert (job["image"], job["image_digest"], job["name"]) == ("ghcr.io/team/train:1", PINNED, "train")
    assert {key: job[key] for key in asked} == asked
    assert job["command"] == []
    assert job["node_rules"] == ["tgpu.dev/containers"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"image": "a:1", "container_cwd": "app"},
            "container_cwd must name whole paths, such as /data/sets; got 'app'",
        ),
        ({"image": "a:1", "container_cwd": "/a/../b"}, "container_cwd must name paths without `..`"),
        ({"command": "x", "container_cwd": "/app"}, "container_cwd is about a container: say image, too"),
        (
            {"command": "x", "ignore_entrypoint": True},
            "ignore_entrypoint is about a container: say image, too",
        ),
    ],
)
def test_what_is_said_of_a_container_must_make_sense(
    client: httpx.Client, asked: dict[str, object], said: str
) -> None:
    answer = client.post("/jobs", json={"cwd": "/tmp", **asked})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(said)


def test_an_image_that_only_some_hosts_have(client: httpx.Client, server: ServerUnderTest) -> None:
    server.live.images = {"mine:1": ImageMeaning(digest=LOCAL, hosts=("gpu1", "gpu2"))}
    job = client.post("/jobs", json={"command": "x", "image": "mine:1", "cwd": "/tmp"}).json()
    assert job["image_digest"] == LOCAL
    assert job["node_rules"] == ["tgpu.dev/containers", "tgpu/host in (gpu1, gpu2)"]


def test_a_container_that_sees_nothing_of_its_node_may_run_on_every_host() -> None:
    with serving(store="postgresql://somewhere/tgpu") as server, server.unix() as client:
        for asked, selector in (
            ({"image": "a:1", "cwd": "/"}, {}),
            ({"image": "a:1", "cwd": "/tmp"}, {"tgpu/host": "login1"}),
            ({"command": "x", "cwd": "/"}, {"tgpu/host": "login1"}),
        ):
            job = client.post("/jobs", json={"submit_host": "login1", **asked}).raise_for_status().json()
            assert job["node_selector"] == selector


def test_one_that_there_is_not_is_refused(client: httpx.Client, server: ServerUnderTest) -> None:
    server.live.images = {"nosuch:1": ImageMeaning(refusal="there is no image nosuch:1 at docker.io")}
    answer = client.post("/jobs", json={"command": "x", "image": "nosuch:1", "cwd": "/tmp"})
    assert (answer.status_code, answer.json()["field"]) == (422, "image")
    assert answer.json()["detail"] == "image: there is no image nosuch:1 at docker.io"


def test_nobody_who_could_tell_leaves_it_unpinned(client: httpx.Client, server: ServerUnderTest) -> None:
    job = client.post("/jobs", json={"command": "x", "image": "a:1", "cwd": "/tmp"}).json()
    assert (job["image"], job["image_digest"]) == ("a:1", None)
    server.live.leads = False
    assert client.post("/jobs", json={"command": "x", "image": "a:1", "cwd": "/tmp"}).status_code == 201


def test_a_name_with_a_digest_needs_no_asking_and_each_other_is_asked_once(
    client: httpx.Client, server: ServerUnderTest
) -> None:
    jobs = [{"command": "x", "image": name, "cwd": "/tmp"} for name in (PINNED, "a:1", "a:1", "b:1")]
    jobs.append({"command": [], "image": "b:1", "pull": "never", "cwd": "/tmp"})
    ids = client.post("/jobs", json={"jobs": jobs}).raise_for_status().json()["job_ids"]
    assert server.live.images_asked == [("a:1", False), ("b:1", False), ("b:1", True)]
    assert client.get(f"/jobs/{ids[0]}").json()["image_digest"] == PINNED


def test_the_containers_of_a_gang_meet_on_the_network_of_their_nodes(client: httpx.Client) -> None:
    asked = {"command": "x", "image": "a:1", "cwd": "/tmp"}

    def network(**more: object) -> str:
        return client.post("/jobs", json={**asked, **more}).raise_for_status().json()["network"]

    assert network(tasks=2) == "host"
    assert network(groups=[{"name": "a"}, {"name": "b", "tasks": 2}]) == "host"
    assert network(tasks=2, network="bridge") == "bridge", "whoever names one knows what they do"
    assert network(nodes=1) is None
    assert network() is None


BRIDGED = Defaults(cpu_milli=1000, memory_mib=100, max_grace_s=60, networks=("bridge", "none"))


def test_the_nodes_own_network_is_refused_where_it_is_not_allowed_and_a_manifest_is_told_its_path() -> None:
    asked = JobAsked(command="x", image="a:1", network="host")
    with pytest.raises(
        ProblemError, match="network must be one of bridge, none here, by the setting"
    ) as told:
        spec_of(asked, "ann", "/tmp", BRIDGED, "default", PriorityClass.DEFAULT)
    assert path_of(str(told.value.extras["field"])) == "spec.template.spec.hostNetwork"


def test_a_gang_that_could_not_meet_is_refused() -> None:
    asked = JobAsked(command="x", image="a:1", tasks=2)
    with pytest.raises(ProblemError, match=r"name a network .* \(of bridge, none\), or ask") as refused:
        spec_of(asked, "ann", "/tmp", BRIDGED, "default", PriorityClass.DEFAULT)
    assert refused.value.extras["field"] == "network"


def test_who_has_no_node_for_another_reason_is_told_nothing_of_engines(client: httpx.Client) -> None:
    asked = {"command": "x", "image": "a:1", "cwd": "/tmp", "gpu_request": 9}
    said = client.post("/jobs", json=asked).json()["detail"]
    assert said == "can never run here: no node has more than 8 GPUs"
    without_engine = f"it asks for a node with {in_words(LabelRule(CONTAINERS_LABEL, LabelOp.EXISTS))}"
    assert "a node with Docker or Podman" in remark(without_engine)
