"""Manifests of the shapes that are published, run by real agents: in containers, and as processes."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.docker_engine import PrivateEngine, tools
from tests.end_to_end.whole_tgpu import Installation, an_installation

MANIFESTS = Path(__file__).parent / "manifests"
IMAGE_LINE = "        image: tools:1\n"


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
def up(engine: PrivateEngine) -> Iterator[Installation]:
    with an_installation() as made:
        made.environ |= {
            "TGPU_DOCKER_HOST": engine.url,
            "TGPU_CONTAINER_NETWORKS": "none,host",
            "TGPU_MOUNT_ALLOW": str(made.files),
            "TGPU_CONTAINER_KEEP": "0s",
        }
        made.up()
        made.wait_until(
            lambda: "tgpu.dev/containers" in made.json("nodes")[0]["labels"], "the engine is known", 30
        )
        yield made


@pytest.fixture(params=["container", "process"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def submitted(up: Installation, name: str, kind: str) -> list[int]:
    """The published manifest as it is; or without its images, which makes processes of its containers."""
    text = (MANIFESTS / name).read_text(encoding="utf-8")
    file = up.files / name
    file.write_text(text if kind == "container" else text.replace(IMAGE_LINE, ""))
    answer = up.json("submit", "-f", str(file))
    return [answer["job_id"]] if "job_id" in answer else answer["job_ids"]


def output(up: Installation, job_id: int) -> list[str]:
    return up.tgpu("logs", str(job_id)).stdout.splitlines()


def test_pi(up: Installation, kind: str) -> None:
    (job_id,) = submitted(up, "pi.yaml", kind)
    job = up.wait_status(job_id, "completed", within_s=40)
    assert output(up, job_id) == ["3.14159"]
    assert (job["name"], job["backoff_limit"], job["attempt_count"]) == ("pi", 4, 1)
    assert job["image"] == ("tools:1" if kind == "container" else None)


def test_one_gpu(up: Installation, kind: str) -> None:
    (job_id,) = submitted(up, "gpu.yaml", kind)
    job = up.wait_status(job_id, "completed", within_s=40)
    assert output(up, job_id) == ["0 hello"]
    assert (job["cpu_request"], job["mem_request_mb"], job["gpu_request"]) == (1, 64, 1)
    assert job["tolerations"] == ["nvidia.com/gpu"]


def test_completions_and_a_work_queue(up: Installation, kind: str) -> None:
    counted, queue = submitted(up, "parallel.yaml", kind)
    job = up.wait_status(counted, "completed", within_s=60)
    assert (job["completions"], job["parallelism"], job["completion_mode"]) == (10, 4, "Indexed")
    assert sorted(line.partition("] ")[2] for line in output(up, counted)) == [
        f"index {index}" for index in range(10)
    ]
    up.wait_status(queue, "completed", within_s=60)
    assert {line.partition("] ")[2] for line in output(up, queue)} == {"worker"}


def test_one_that_fails_is_tried_again(up: Installation) -> None:
    (up.files / "fails-once.yaml").write_text(
        f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: fails-once}}
spec:
  backoffLimit: 1
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        command: ["sh", "-c", "test -e {up.files}/tried || {{ touch {up.files}/tried; exit 3; }}"]
"""
    )
    job_id = up.submit("-f", "fails-once.yaml")
    assert up.wait_status(job_id, "completed", "failed", within_s=40)["attempt_count"] == 2


def test_an_exit_code_that_ends_the_job_at_once(up: Installation) -> None:
    (up.files / "gives-up.yaml").write_text(
        """
apiVersion: batch/v1
kind: Job
metadata: {name: gives-up}
spec:
  backoffLimit: 6
  podFailurePolicy:
    rules:
    - action: FailJob
      onExitCodes: {operator: In, values: [42]}
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        command: ["sh", "-c", "exit 42"]
"""
    )
    job = up.wait_status(up.submit("-f", "gives-up.yaml"), "failed")
    assert (job["exit_code"], job["attempt_count"]) == (42, 1)


def test_a_container_begins_as_its_manifest_says(up: Installation) -> None:
    """Where it says, and with nothing of the directory from which it was submitted."""
    (up.files / "where.yaml").write_text(
        (MANIFESTS / "pi.yaml")
        .read_text(encoding="utf-8")
        .replace(IMAGE_LINE, f"{IMAGE_LINE}        workingDir: /etc\n")
        .replace("echo 3.$((355 * 100000 / 113 - 300000))", f"pwd; ls {up.files} || echo not here")
    )
    job_id = up.submit("-f", "where.yaml")
    up.wait_status(job_id, "completed", within_s=40)
    assert output(up, job_id) == ["/etc", "not here"]


def test_of_a_file_with_one_wrong_job_none_is_submitted(up: Installation) -> None:
    before = len(up.json("list", "--all"))
    text = (MANIFESTS / "pi.yaml").read_text(encoding="utf-8")
    wrong = text.replace("command:", "resources: {limits: {nvidia.com/gpu: 99}}\n        command:")
    (up.files / "two.yaml").write_text(f"{text}---\n{wrong}")
    done = up.tgpu("submit", "-f", "two.yaml", check=False)
    assert done.returncode == 6
    assert "can never run here" in done.stderr
    assert len(up.json("list", "--all")) == before


def test_a_command_takes_the_place_of_the_entry_point_and_arguments_do_not(
    up: Installation, engine: PrivateEngine
) -> None:
    changes = quote('ENTRYPOINT ["echo", "entered"]')
    engine.ask("POST", f"/images/create?fromSrc=-&repo=entered&tag=1&changes={changes}", tools("entered"))
    text = (MANIFESTS / "pi.yaml").read_text(encoding="utf-8").replace("tools:1", "entered:1")
    (up.files / "command.yaml").write_text(text)
    (up.files / "args.yaml").write_text(text.replace("command:", "args:"))
    by_command, by_args = up.submit("-f", "command.yaml"), up.submit("-f", "args.yaml")
    for job_id in (by_command, by_args):
        up.wait_status(job_id, "completed", within_s=40)
    assert output(up, by_command) == ["3.14159"]
    assert output(up, by_args) == ["entered sh -c echo 3.$((355 * 100000 / 113 - 300000))"]
