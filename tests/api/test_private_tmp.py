"""Private /tmp in the API: the note in the answer to a submission, and jobs that ask for a shared one."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.api.conftest import ServerUnderTest, serving
from tgpu.api.private_tmp import TmpNotes
from tgpu.config.settings import Settings
from tgpu.dialects.slurm import launching
from tgpu.domain.container import Container
from tgpu.domain.job import Group, JobSpec, Request
from tgpu.domain.lifecycle import NodeState
from tgpu.domain.node import Capacity, Node
from tgpu.domain.output_files import OutputFiles
from tgpu.store.memory import MemoryStore
from tgpu.store.port import StoreUnavailableError

REMOVED = "what it writes to /tmp and /dev/shm is removed when it ends"


def a_node(serves: str = "*") -> Node:
    return Node("n1", NodeState.READY, Capacity(1000, 1024, 1024), serves=serves)


class Nodes(MemoryStore):
    """A store that counts how often it is asked for nodes; None: it is away."""

    def __init__(self, *nodes: Node | None) -> None:
        super().__init__()
        self.known, self.asked = nodes, 0

    async def nodes(self) -> list[Node]:
        self.asked += 1
        if None in self.known:
            raise StoreUnavailableError("away")
        return [node for node in self.known if node is not None]


def a_job(command: tuple[str, ...] | str, cwd: str = "/home/ann", **more: object) -> JobSpec:
    return JobSpec("ann", (Group(command, Request(), cwd=cwd),), **more)  # type: ignore[arg-type]


def note_of(spec: JobSpec, store: Nodes | None = None, **settings: str) -> str:
    notes = TmpNotes(Settings(home=Path("/"), **settings), Nodes(a_node()) if store is None else store)  # type: ignore[arg-type]
    return asyncio.run(notes.of([spec]))


@pytest.mark.parametrize(
    "command",
    [
        ("python", "train.py", "--out", "/tmp/model"),
        ("train", "--out=/tmp"),
        "train >/tmp/log",
        "cat '/dev/shm/x'",
        tuple(launching.command("#!/bin/sh\ntrain --out /tmp/model\n", [])),
        tuple(launching.command("#!/bin/sh\ntrain $1\n", ["/tmp/model"])),
    ],
)
def test_command_that_names_a_path_in_a_private_tmp_is_noted(command: tuple[str, ...] | str) -> None:
    assert REMOVED in note_of(a_job(command))


@pytest.mark.parametrize(
    "command",
    [
        ("python", "/var/tmp/train.py", "/data/tmp/x", "/tmpfs", "/dev/shmem", "/tmp.old"),
        "train >~/tmp/log",
        tuple(launching.command("#!/bin/bash -l\ntrain\n", [])),
    ],
)
def test_command_that_names_no_such_path_is_not_noted(command: tuple[str, ...] | str) -> None:
    store = Nodes(a_node())
    assert note_of(a_job(command), store) == ""
    assert store.asked == 0, "most submissions cost nothing"


def test_no_note_where_the_job_has_no_private_tmp() -> None:
    job = a_job("train >/tmp/log")
    (group,) = job.groups
    assert note_of(replace(job, shared_tmp=True)) == ""
    assert note_of(replace(job, groups=(replace(group, container=Container("image")),))) == ""
    assert note_of(replace(job, groups=(replace(group, cwd="/tmp/work"),))) == ""
    assert note_of(job, private_tmp="off") == ""
    assert note_of(job, Nodes(a_node("ann"))) == "", "only agents that are root make one"
    assert note_of(job, Nodes(None)) == "", "the submission is answered all the same"


def test_output_file_below_tmp_is_noted_as_one_of_its_node() -> None:
    for files in (OutputFiles("/tmp/out-%j.txt"), OutputFiles("out.txt", "/dev/shm/err.txt")):
        assert note_of(a_job("train", files=files)).startswith("this job uses the /tmp of its node")
    assert note_of(a_job("train", files=OutputFiles("tmp/out.txt"))) == ""


def test_note_names_shared_tmp_only_where_it_is_allowed() -> None:
    job = a_job("train >/tmp/log")
    assert note_of(job).endswith("or ask an administrator to allow shared_tmp")
    assert note_of(job, shared_tmp="on").endswith("or submit with `tgpu submit --shared-tmp`")


def test_nodes_are_read_once_a_minute() -> None:
    now, store = [0.0], Nodes(a_node())
    notes = TmpNotes(Settings(home=Path("/")), store, lambda: now[0])
    for at in (0.0, 59.0, 61.0):
        now[0] = at
        assert asyncio.run(notes.of([a_job("cat /tmp/x")]))
    assert store.asked == 2


@pytest.fixture(scope="module")
def sharing() -> Iterator[ServerUnderTest]:
    with serving(Nodes(a_node()), shared_tmp="on") as running:
        yield running


@pytest.fixture(scope="module")
def ours(sharing: ServerUnderTest) -> Iterator[httpx.Client]:
    with sharing.unix() as opened:
        yield opened


def test_answers_to_one_job_and_to_many_have_the_note(ours: httpx.Client) -> None:
    job = {"command": "train >/tmp/log", "cwd": "/"}
    assert REMOVED in ours.post("/jobs", json=job).json()["tmp_note"]
    assert REMOVED in ours.post("/jobs", json={"jobs": [{"command": "train"}, job]}).json()["tmp_note"]
    assert "tmp_note" not in ours.post("/jobs", json={"command": "train"}).json()


def test_job_with_shared_tmp_is_shown_so_and_one_with_an_image_is_refused(ours: httpx.Client) -> None:
    made = ours.post("/jobs", json={"command": "cat /tmp/x", "cwd": "/", "shared_tmp": True})
    assert (made.status_code, made.json()["shared_tmp"]) == (201, True)
    assert "tmp_note" not in made.json()
    refused = ours.post("/jobs", json={"command": "true", "image": "debian", "shared_tmp": True})
    assert refused.status_code == 422
    assert "a container has a /tmp of its own" in refused.json()["detail"]


def test_shared_tmp_is_refused_unless_the_setting_allows_it(quiet_client: httpx.Client) -> None:
    refused = quiet_client.post("/jobs", json={"command": "true", "shared_tmp": True})
    assert refused.status_code == 422
    assert "ask an administrator to set shared_tmp = on" in refused.json()["detail"]


def test_rerun_of_a_job_with_shared_tmp_is_refused_once_that_is_off(sharing: ServerUnderTest) -> None:
    with sharing.unix() as client:
        job_id = client.post("/jobs", json={"command": "true", "cwd": "/", "shared_tmp": True}).json()[
            "job_id"
        ]
        assert client.post(f"/jobs/{job_id}/rerun").json()["shared_tmp"] is True
    with serving(sharing.store) as strict, strict.unix() as client:
        refused = client.post(f"/jobs/{job_id}/rerun")
    assert refused.status_code == 422
    assert "shared_tmp = on" in refused.json()["detail"]
