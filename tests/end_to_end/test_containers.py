"""Jobs with an image, from the command line to their output, on an engine of the tests' own."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest

import tgpu
from tests.docker_engine import IMAGE, PrivateEngine, tools
from tests.end_to_end.at_terminal import DETACH, at_terminal
from tests.end_to_end.whole_tgpu import Installation, an_installation
from tests.fake_registry import FakeRegistry
from tgpu.domain.container import HOSTFILE

PYTHON_PATH = str(Path(cloudpickle.__file__).parents[1])
PYTHON = sorted({"/usr", "/lib", "/lib64", sys.base_prefix, PYTHON_PATH})
"""What the interpreter of the tests needs, for an image that has none."""


@pytest.fixture(scope="module")
def engine() -> Iterator[PrivateEngine]:
    made = PrivateEngine()
    try:
        made.start()
        made.bring()
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def one(engine: PrivateEngine) -> Iterator[Installation]:
    with an_installation() as made:
        made.environ |= {
            "TGPU_DOCKER_HOST": engine.url,
            "TGPU_CONTAINER_NETWORKS": "none,host",
            "TGPU_MOUNT_ALLOW": ",".join([str(made.files), *PYTHON]),
            "TGPU_CONTAINER_KEEP": "0s",
        }
        made.up()
        yield made


@pytest.fixture
def up(one: Installation, engine: PrivateEngine) -> Iterator[Installation]:
    one.wait_until(lambda: "tgpu.dev/containers" in one.json("nodes")[0]["labels"], "the engine is known", 30)
    yield one
    one.tgpu("cancel", "all", "--now", check=False)
    one.wait_until(lambda: engine.names() == [], "all containers are removed")


def output(up: Installation, job_id: int) -> str:
    return up.tgpu("logs", str(job_id)).stdout


def test_a_job_in_a_container(up: Installation, engine: PrivateEngine) -> None:
    (up.files / "sets").mkdir()
    (up.files / "sets" / "one").write_text("data\n")
    job_id = up.submit(
        *("--image", IMAGE, "--mount", f"{up.files}/sets:/data:ro", "--gpus", "2", "--memory", "64M"),
        *("--env", "EPOCHS=3", "--name", "boxed", "--", "sh", "-c"),
        "cat /data/one; pwd; echo $EPOCHS $CUDA_VISIBLE_DEVICES $TGPU_JOB_NAME $PATH; touch /data/x",
    )
    job = up.wait_status(job_id, "failed")
    assert (job["exit_code"], job["cause"]) == (1, "exited")
    assert output(up, job_id).splitlines() == [
        "data",
        str(up.files),
        "3 0,1 boxed /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ]
    assert job["image"] == IMAGE
    assert job["image_digest"] == engine.ask("GET", f"/images/{IMAGE}/json")["Id"]
    assert job["mounts"] == [f"{up.files}/sets:/data:ro"]
    card = up.tgpu("show", str(job_id)).stdout
    assert f"{IMAGE}  (sha256:" in card
    up.wait_until(lambda: engine.names() == [], "the container is removed")


def test_it_outlives_the_agent_and_the_server(up: Installation) -> None:
    job_id = up.submit("--image", IMAGE, "--", "sh", "-c", "for i in $(seq 60); do echo $i; sleep 0.1; done")
    up.wait_until(lambda: "5\n" in output(up, job_id), "it prints")
    up.kill("agent", "server")
    up.up()
    assert up.wait_status(job_id, "completed")["attempt_count"] == 1
    assert output(up, job_id).split() == [str(number) for number in range(1, 61)]


def test_it_is_cancelled_and_nothing_of_it_is_left(up: Installation, engine: PrivateEngine) -> None:
    job_id = up.submit(
        "--image", IMAGE, "--grace", "1s", "--", "sh", "-c", "trap '' TERM; sleep 300 & wait; wait"
    )
    up.wait_status(job_id, "running")
    up.tgpu("cancel", str(job_id))
    assert up.wait_status(job_id, "cancelled")["cause"] == "cancelled"
    up.wait_until(lambda: engine.names() == [], "the container is removed")


def test_a_program_inside_it(up: Installation) -> None:
    job_id = up.submit("--image", IMAGE, "--env", "SIGN=here", "--", "sleep", "300")
    up.wait_status(job_id, "running")
    done = up.tgpu(
        "exec", str(job_id), "--", "sh", "-c", "echo $SIGN; cat; exit 3", check=False, input="typed\n"
    )
    assert (done.returncode, done.stdout) == (3, "here\ntyped\n")


def test_a_terminal_of_its_own_is_left_and_come_back_to_through_restarts(up: Installation) -> None:
    with at_terminal(up, "run", "--pty", "--image", IMAGE, "--", "sh", rows=31, cols=97) as person:
        person.type(b"stty size; echo job $((40+2))\n")
        person.until(b"31 97\r\njob 42\r\n")
        person.type(DETACH)
        assert person.ends() == 0
        assert b"comes back to it" in person.seen
    with at_terminal(up, "attach", "last") as person:
        person.until(b"job 42\r\n")
        up.kill("agent", "server")
        up.up()
        job_id = up.json("list")[0]["job_id"]
        up.wait_until(lambda: up.status(job_id) == "running", "the job runs on")
        person.until(b"job 42\r\n", 30)
        person.type(b"echo after $((2+2)); exit 7\n")
        person.until(b"after 4\r\n", 30)
        assert person.ends() == 7
    assert up.wait_status(job_id, "failed")["exit_code"] == 7


def test_a_gang_of_containers_finds_its_hosts_and_is_broken_before_any_of_it_starts(up: Installation) -> None:
    job_id = up.submit(
        *("--ntasks", "2", "--image", IMAGE, "--", "sh", "-c"),
        "echo $RANK $TGPU_HOSTFILE; cat $TGPU_HOSTFILE",
    )
    up.wait_status(job_id, "completed")
    found = [up.tgpu("logs", f"{job_id}.{rank}").stdout for rank in range(2)]
    assert found == [f"{rank} {HOSTFILE}\nlocalhost slots=2\n" for rank in range(2)]
    mounts = ("--mount", f"{up.files}:/data", "--mount", "/etc:/other")
    job_id = up.submit("--ntasks", "2", "--image", IMAGE, *mounts, "--", "touch", "/data/begun")
    job = up.wait_status(job_id, "failed")
    assert job["cause"] == "could-not-start"
    assert "mount_allow" in job["reason"]
    assert not (up.files / "begun").exists()


def test_images_are_pinned_when_they_are_submitted(up: Installation) -> None:
    registry = FakeRegistry()
    name = f"{registry.host}/team/train"
    try:
        first = registry.push("team/train", "1", tools("first"))
        up.sleeper("--exclusive", "--time", "5m")
        job_id = up.submit("--image", f"{name}:1", "--", "cat", "/etc/marker")
        registry.push("team/train", "1", tools("second"))
        job = up.show(job_id)
        assert (job["image"], job["image_digest"]) == (f"{name}:1", f"{name}@{first}")
        up.tgpu("cancel", "--state", "running", check=False)
        up.tgpu("cancel", str(job_id - 1), check=False)
        up.wait_status(job_id, "completed")
        assert output(up, job_id) == "first"
        refused = up.tgpu("submit", "--image", f"{name}:nosuch", "--", "true", check=False)
        assert refused.returncode != 0
        assert f"there is no image {name}:nosuch" in refused.stderr
    finally:
        registry.close()


def test_a_registry_that_is_away_pins_nothing(up: Installation) -> None:
    job_id = up.submit("--image", "127.0.0.1:1/train:1", "--", "true")
    assert up.show(job_id)["image_digest"] is None
    assert "not pinned" in up.tgpu("show", str(job_id)).stdout
    up.wait_until(
        lambda: "trying again" in (up.show(job_id)["starting_note"] or ""), "it is told how far it is"
    )
    assert "trying again" in up.tgpu("why", str(job_id)).stdout
    up.tgpu("cancel", str(job_id))
    up.wait_status(job_id, "cancelled")


WRONG = (
    (("--image", "a;reboot"), "must be the name of an image"),
    (("--image", "$(reboot)"), "must be the name of an image"),
    (("--image", "x" * 600), "must be the name of an image"),
    (("--image", IMAGE, "--mount", "/:/host"), "cannot mount / itself"),
    (("--image", IMAGE, "--mount", "/tmp/../etc:/host"), "without `..`"),
    (("--image", IMAGE, "--mount", "/tmp:/proc/1"), "cannot mount over /proc/1"),
    (("--image", IMAGE, "--network", "container:other"), "must be none, bridge, host"),
    (("--image", IMAGE, "--network", "bridge"), "must be one of none, host here"),
    (("--image", IMAGE, "--once"), "cannot live at most once"),
    (("--mount", "/tmp:/data"), "image, too"),
)


def test_what_cannot_be_meant_is_refused_with_words(up: Installation) -> None:
    for flags, words in WRONG:
        done = up.tgpu("submit", *flags, "--", "true", check=False)
        assert done.returncode != 0
        assert words in done.stderr


def test_doctor_tells_of_the_engine(up: Installation) -> None:
    said = up.tgpu("doctor", check=False).stdout
    assert "containers" in said
    assert "docker" in said
    elsewhere = up.environ | {"TGPU_DOCKER_HOST": f"unix://{up.files}/nosuch.sock"}
    known, up.environ = up.environ, elsewhere
    try:
        assert "does not answer" in up.tgpu("doctor", check=False).stdout
    finally:
        up.environ = known


def test_functions_run_in_an_image(up: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(up.files)
    monkeypatch.setenv("PWD", str(up.files))
    monkeypatch.setenv("OF_THE_CALLER", "1")

    def work(number: int) -> tuple[int, bool, bool]:
        if number < 0:
            raise ValueError("too small")
        return number**2, Path("/etc/marker").exists(), "OF_THE_CALLER" in os.environ

    calls = up.files / "calls"  # where this node lets containers mount
    with tgpu.Executor(
        calls,
        server=f"unix://{up.home}/run/tgpu.sock",
        image=IMAGE,
        python=str(Path(sys.executable).resolve()),
        mounts=[f"{path}:{path}:ro" for path in PYTHON],
        env={"PYTHONPATH": PYTHON_PATH},
    ) as executor:
        failing = executor.submit(work, -1)
        assert list(executor.map(work, [2, 3], timeout=60)) == [(4, True, False), (9, True, False)]
        assert isinstance(failing.exception(timeout=60), ValueError)
    without_python = tgpu.Executor(calls, server=f"unix://{up.home}/run/tgpu.sock", image=IMAGE).submit(
        abs, -1
    )
    assert "exec python3 failed" in str(without_python.exception(timeout=60))
