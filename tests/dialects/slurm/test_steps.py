"""Steps: which tasks run where, what they find, and how the nodes of a job know each other."""

import asyncio
import os
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tgpu.cli.slurm import desk, step_wire
from tgpu.cli.slurm.placing import places
from tgpu.cli.slurm.turns import Turn, Wish
from tgpu.dialects.slurm import step_gpus
from tgpu.dialects.slurm.refusal import SlurmError
from tgpu.dialects.slurm.step_gpus import Binding
from tgpu.dialects.slurm.step_plan import step_of

TWO = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_NUM_NODES": "2"}


def spread(said: dict[str, str | None], environ: dict[str, str]) -> list[tuple[int, int, int]]:
    return [(task.rank, task.node, task.local) for task in step_of(said, environ).tasks]


def test_how_tasks_are_shared_out() -> None:
    assert spread({}, {"SLURM_JOB_NODELIST": "n1"}) == [(0, 0, 0)]
    assert spread({"ntasks": "3"}, {"SLURM_JOB_NODELIST": "n1"}) == [(0, 0, 0), (1, 0, 1), (2, 0, 2)]
    assert spread({}, TWO) == [(0, 0, 0), (1, 1, 0)]
    assert spread({"ntasks": "3"}, TWO) == [(0, 0, 0), (1, 0, 1), (2, 1, 0)]
    assert spread({}, TWO | {"SLURM_NTASKS": "4"}) == [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1)]
    assert spread({"ntasks": "1"}, TWO | {"SLURM_NTASKS": "4"}) == [(0, 0, 0)]
    assert spread({"nodes": "1", "ntasks-per-node": "2"}, TWO) == [(0, 0, 0), (1, 0, 1)]
    assert spread({"nodelist": "n2", "ntasks": "1"}, TWO) == [(0, 1, 0)]
    assert spread({"relative": "1", "ntasks": "1"}, TWO) == [(0, 1, 0)]


def test_nodes_are_named_by_their_names_or_by_how_they_are_reached() -> None:
    """Also where several are reached alike, as agents on one machine are."""
    environ = TWO | {"SLURM_JOB_NODELIST": "10.0.0.1,10.0.0.1", "TGPU_NODENAMES": "gpu1,gpu2"}
    assert spread({"nodelist": "gpu2"}, environ) == [(0, 1, 0)]
    assert spread({"nodelist": "gpu[1-2]"}, environ) == [(0, 0, 0), (1, 1, 0)]
    with pytest.raises(SlurmError, match="n9 is none of the job's nodes, gpu1,gpu2"):
        step_of({"nodelist": "n9"}, environ)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"nodes": "3"}, "--nodes: the job has 2 nodes; got 3"),
        ({"nodelist": "n9"}, "--nodelist: n9 is none of the job's nodes"),
        ({"ntasks": "0"}, "--ntasks must be from 1"),
        ({"ntasks": "x"}, "--ntasks must be a whole number"),
    ],
)
def test_steps_that_cannot_be(said: dict[str, str | None], why: str) -> None:
    with pytest.raises(SlurmError, match=why):
        step_of(said, TWO)


def test_what_a_task_of_a_step_finds() -> None:
    step = step_of({"ntasks": "3", "cpus-per-task": "2"}, TWO)
    assert step.variables(step.tasks[2], 5) == {
        "SLURM_PROCID": "2", "SLURM_LOCALID": "0", "SLURM_NODEID": "1", "SLURM_GTIDS": "2",
        "SLURM_NTASKS": "3", "SLURM_NPROCS": "3", "SLURM_NNODES": "2", "SLURM_TASKS_PER_NODE": "2,1",
        "SLURM_STEP_ID": "5",
        "SLURM_STEPID": "5", "SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_NUM_NODES": "2",
        "SLURM_STEP_TASKS_PER_NODE": "2,1", "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_CPUS_PER_TASK": "2",
        "SLURM_LAUNCH_NODE_IPADDR": "n1",
    }  # fmt: skip


def test_a_step_s_nodes_stand_in_the_order_of_its_ranks() -> None:
    several = {"SLURM_JOB_NODELIST": "10.0.0.7,10.0.0.2,10.0.0.3", "SLURM_JOB_NUM_NODES": "3"}
    step = step_of({}, several)
    assert step.variables(step.tasks[0], 0)["SLURM_STEP_NODELIST"] == "10.0.0.7,10.0.0.2,10.0.0.3"
    step = step_of({"nodelist": "10.0.0.3,10.0.0.2,10.0.0.3", "ntasks": "3"}, several)
    found = step.variables(step.tasks[0], 0)
    assert [found[f"SLURM_STEP_{name}"] for name in ("NODELIST", "TASKS_PER_NODE")] == ["10.0.0.[2-3]", "2,1"]


def counted(said: dict[str, str | None], environ: dict[str, str]) -> dict[int, int] | None:
    found = step_gpus.asked(said, step_of(said, environ))
    return None if found is None else found.counts


def test_how_many_gpus_a_step_asks_for() -> None:
    assert counted({"ntasks": "3"}, TWO) is None
    assert counted({"ntasks": "3", "gpus-per-task": "2"}, TWO) == {0: 4, 1: 2}
    assert counted({"ntasks": "3", "tres-per-task": "gres/gpu:a100=1"}, TWO) == {0: 2, 1: 1}
    assert counted({"gres": "gpu:a100:2"}, TWO) == {0: 2, 1: 2}
    assert counted({"gpus-per-node": "1"}, TWO) == {0: 1, 1: 1}
    assert counted({"gpus": "3"}, TWO) == {0: 2, 1: 1}
    assert counted({"gres": "none"}, TWO) == {0: 0, 1: 0}
    assert counted({"gres": "mps:50"}, TWO) is None
    assert counted({"gres": "licence:1"}, TWO) is None


def test_which_gpus_a_task_finds() -> None:
    found = [step_gpus.variables(["1", "3", "5", "7"], local, Binding(2), "0") for local in (0, 1)]
    assert [one["CUDA_VISIBLE_DEVICES"] for one in found] == ["1,3", "5,7"]
    assert step_gpus.variables(["1", "3"], 1, Binding(), "5") == {
        "CUDA_VISIBLE_DEVICES": "1,3", "SLURM_STEP_GPUS": "1,3", "SLURM_GPUS_ON_NODE": "2",
        "TGPU_STEP_OF_GPUS": "5",
    }  # fmt: skip


def test_more_gpus_than_the_job_has() -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "4,6", "SLURM_GPUS_ON_NODE": "2"}
    assert step_gpus.StepGpus({0: 1, 1: 2}, Binding()).among(environ, "7") == {
        0: (1, ["4", "6"]),
        1: (2, ["0", "1"]),
    }
    with pytest.raises(
        SlurmError, match="step for job 7: Requested node configuration is not available: it asks"
    ):
        step_gpus.StepGpus({1: 3}, Binding()).among(environ, "7")


def test_gpus_and_how_many_each_task_has_say_how_many_tasks() -> None:
    said: dict[str, str | None] = {"gpus": "4", "gpus-per-task": "1"}
    assert len(step_of(said, {"SLURM_JOB_NODELIST": "n1"}).tasks) == 4
    assert spread(said, TWO) == [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1)]
    assert counted(said, TWO) == {0: 2, 1: 2}
    assert len(step_of(said, TWO | {"SLURM_NTASKS": "2"}).tasks) == 4
    assert len(step_of(said | {"ntasks": "2"}, TWO).tasks) == 2
    assert len(step_of({"gres": "gpu:4", "tres-per-task": "gres/gpu=2", "nodes": "1"}, TWO).tasks) == 2
    assert len(step_of({"gpus-per-node": "2", "ntasks-per-gpu": "2"}, TWO).tasks) == 8
    assert len(step_of({"gpus-per-task": "1"}, TWO | {"SLURM_NTASKS": "3"}).tasks) == 3
    assert len(step_of({"gpus": "4"}, TWO).tasks) == 2


@pytest.fixture
def turns() -> Iterator[Callable[..., Turn]]:
    """Makes turns of one job."""
    made: list[Turn] = []

    def one(inside: str = "") -> Turn:
        made.append(Turn(f"test-{os.getpid()}", inside))
        return made[-1]

    yield one
    for turn in made:
        let_go(turn)


def let_go(turn: Turn) -> None:
    for held in turn._held:
        held.close()


def gpus_of(turn: Turn, *wishes: Wish, each: int = 3) -> dict[int, list[str]]:
    return turn.wait_for(wishes, each)[1]


def test_turns_are_taken_whole_or_not_at_all(turns: Callable[..., Turn]) -> None:
    first, second = turns(), turns()
    got: list[dict[int, list[str]]] = []
    assert (first.number(), second.number()) == (0, 1)
    gpus = {0: (1, ["4", "6"]), 1: (2, ["0", "1"])}
    assert gpus_of(first, Wish({0: 1}, gpus)) == {0: ["4"], 1: ["0", "1"]}
    waiting = threading.Thread(target=lambda: got.append(gpus_of(second, Wish({0: 2}, gpus))))
    waiting.start()
    waiting.join(timeout=0.5)
    assert waiting.is_alive()
    let_go(first)
    waiting.join(timeout=60)
    assert got == [{0: ["4"], 1: ["0", "1"]}]


def test_a_step_takes_the_first_nodes_that_have_what_it_asks_for(turns: Callable[..., Turn]) -> None:
    environ = TWO | {"SLURM_GPUS_ON_NODE": "2", "CUDA_VISIBLE_DEVICES": "4,6"}
    said: dict[str, str | None] = {"ntasks": "1", "gpus": "2"}
    found = []
    for _ in range(2):
        place, gpus = turns().wait_for(places(said, environ), 4)
        found.append((place.step.nodes, place.step.names, gpus))
    assert found == [([0], ["n1"], {0: ["4", "6"]}), ([1], ["n2"], {1: ["0", "1"]})]


@pytest.mark.parametrize("where", [{"nodelist": "n2"}, {"relative": "1"}, {"pty": None}, {"nodes": "2"}])
def test_a_step_that_says_where_runs_nowhere_else(where: dict[str, str | None]) -> None:
    assert len(list(places({"ntasks": "1"} | where, TWO))) == (2 if "nodes" in where else 1)
    assert len(list(places({} | where, TWO))) == 1


def test_steps_inside_of_a_step_share_out_its_gpus(turns: Callable[..., Turn]) -> None:
    both = Wish({}, {0: (2, ["4", "6"])})
    one = Wish({}, {0: (1, ["4", "6"])})
    assert gpus_of(turns(), both) == {0: ["4", "6"]}
    assert [gpus_of(turns("0"), one) for _ in range(2)] == [{0: ["4"]}, {0: ["6"]}]


def test_a_step_may_have_more_cpus_than_a_process_has_files(turns: Callable[..., Turn]) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1]), before[1]))
    turn = turns()
    try:
        turn.wait_for([Wish(dict.fromkeys(range(8), 128), {})], 128)
        assert len(turn._held) == 8 * 128
    finally:
        let_go(turn)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def a_desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for name, value in (
        ("MASTER_PORT", str(port)),
        ("TGPU_JOB_ID", f"t{os.getpid()}"),
        ("TGPU_ATTEMPT", "1"),
    ):
        monkeypatch.setenv(name, value)
    loop = asyncio.new_event_loop()
    task = loop.create_task(desk.Desk(b"the key").serve())

    def run() -> None:
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(task)

    thread = threading.Thread(target=run)
    thread.start()
    yield ("127.0.0.1", port)
    loop.call_soon_threadsafe(task.cancel)
    thread.join()
    loop.close()


def called(address: tuple[str, int], key: bytes, hello: dict[str, Any]) -> Any:
    for _ in range(100):
        try:
            return step_wire.call(address, key, hello)
        except ConnectionRefusedError:
            threading.Event().wait(0.05)
    raise AssertionError("nobody is there")


def test_whoever_does_not_know_the_key_is_sent_away(a_desk: tuple[str, int]) -> None:
    with pytest.raises(step_wire.NotOursError):
        called(a_desk, b"another key", {"node": 1})


def test_srun_and_a_node_hear_each_other(a_desk: tuple[str, int]) -> None:
    control, asked = called(a_desk, b"the key", {"node": 1})
    with control, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as srun:
        srun.connect(step_wire.desk_name(os.environ))
        step_wire.write_line(srun, {"node": 1})
        step_wire.write_line(srun, {"argv": ["true"]})
        ticket = step_wire.read_line(asked)["open"]
        node, lines = called(a_desk, b"the key", {"ticket": ticket})
        with node:
            assert step_wire.read_line(lines) == {"argv": ["true"]}
            node.sendall(
                step_wire.frame(step_wire.OUT, 3, b"hello") + step_wire.frame(step_wire.END, 3, code=7)
            )
            stream = srun.makefile("rb")
            assert step_wire.read_frame(stream) == (step_wire.OUT, 3, b"hello", 0)
            assert step_wire.read_frame(stream) == (step_wire.END, 3, b"", 7)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"ntasks-per-gpu": "2", "gpus": "2"}, ["0", "0", "1", "1"]),
        ({"ntasks-per-gpu": "2", "ntasks": "3"}, ["0", "0", "1"]),
        ({"gpus-per-task": "2", "ntasks": "2"}, ["0,1", "2,3"]),
        ({"gpus": "2", "ntasks": "2"}, ["0,1", "0,1"]),
    ],
)
def test_tasks_are_bound_to_gpus(said: dict[str, str | None], found: list[str]) -> None:
    environ = {"SLURM_JOB_NODELIST": "n1", "CUDA_VISIBLE_DEVICES": "0,1,2,3", "SLURM_GPUS_ON_NODE": "4"}
    place = next(places(said, environ))
    assert place.gpus is not None
    devices, binding = place.first_gpus()[0], place.gpus.binding
    tasks = [step_gpus.variables(devices, task.local, binding, "0") for task in place.step.tasks]
    assert [each["CUDA_VISIBLE_DEVICES"] for each in tasks] == found


@pytest.mark.parametrize("text", ["0", "-1", "x", "99999"])
def test_bad_number_of_tasks_per_gpu_is_refused(text: str) -> None:
    with pytest.raises(SlurmError, match="--ntasks-per-gpu must be"):
        next(places({"ntasks-per-gpu": text, "ntasks": "1"}, {"SLURM_JOB_NODELIST": "n1"}))
