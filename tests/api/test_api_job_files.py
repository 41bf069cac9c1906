"""`POST /job-files`: texts of every form become jobs, and hostile ones become problems."""

import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.conftest import ServerUnderTest


def read(client: httpx.Client, text: str, name: str = "") -> dict[str, Any]:
    answer = client.post("/job-files", json={"text": text, "name": name})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert not (found["jobs"] and found["problems"])
    return found


def test_own_form_becomes_fields_of_the_api(quiet_client: httpx.Client) -> None:
    found = read(quiet_client, "name: train\ncommand: python train.py\ngpus: 2\nmemory: 16G\ntime: 2h\n")
    assert found == {
        "format": "tgpu",
        "jobs": [
            {
                "name": "train",
                "command": "python train.py",
                "gpu_request": 2,
                "mem_request_mb": 16384,
                "time_limit_s": 7200,
            }
        ],
        "warnings": [],
        "problems": [],
    }


def test_several_jobs_of_a_file_are_submitted_together(client: httpx.Client) -> None:
    text = "cwd: /tmp\njobs:\n  prepare: {command: 'true'}\n  train: {command: 'true', needs: prepare}\n"
    found = read(client, text)
    assert [job["name"] for job in found["jobs"]] == ["prepare", "train"]
    assert client.post("/jobs", json={"jobs": found["jobs"]}).status_code == 201


def test_batch_script_becomes_a_job_that_can_be_submitted(client: httpx.Client) -> None:
    text = "#!/bin/bash\n#SBATCH --gres=gpu:1 --time=10\n#SBATCH --job-name=fit\nsrun hostname\n"
    found = read(client, text, "fit.sh")
    (job,) = found["jobs"]
    assert (found["format"], job["name"], job["gpu_request"], job["time_limit_s"]) == ("slurm", "fit", 1, 600)
    assert job["env"] == {}
    assert "cwd" not in job
    assert client.post("/jobs?dry_run=true", json=job | {"cwd": "/tmp"}).status_code == 200


def test_manifest_becomes_a_job(quiet_client: httpx.Client) -> None:
    text = """
apiVersion: batch/v1
kind: Job
metadata: {name: pi}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: pi, image: perl, command: [perl, -v]}
"""
    found = read(quiet_client, text)
    assert (found["format"], found["jobs"][0]["image"], found["problems"]) == ("kubernetes", "perl", [])


def test_script_without_options_is_run_as_it_is(quiet_client: httpx.Client) -> None:
    found = read(quiet_client, "#!/usr/bin/env python3\nprint(1)\n", "one.py")
    assert (found["format"], found["jobs"][0]["command"][:2]) == ("script", ["python3", "-c"])
    assert "pasted script can be run by" in read(quiet_client, "#!/opt/strange\n")["problems"][0]["text"]


@pytest.mark.parametrize(
    ("text", "line", "path", "words"),
    [
        ("command: x\ngpus: many\n", 2, "gpus", "gpus must be"),
        ("command: x\n\ngpu: 1\n", 3, "gpu", "did you mean"),
        ("command: x\ncommand: y\n", 2, "", "given twice"),
        ("command: [\n", 2, "", "expected the node content"),
        ("jobs:\n  a: {command: x}\n  b:\n    command: x\n    time: soon\n", 5, "time", "time must be"),
        ("command: x\n---\ncommand: y\nclass: best\n", 4, "class", "class must be one of"),
        ("jobs: {}\n", 1, "jobs", "at least one job"),
        ("#!/bin/sh\n#SBATCH --time=never\n", 2, "", "--time"),
        ("#!/bin/sh\n\n#SBATCH --nonsense\n", 3, "", "--nonsense"),
        ("apiVersion: batch/v1\nkind: Job\nspec:\n  wrong: 1\n", 4, "spec.wrong", "wrong"),
        ("- a\n- b\n", 1, "", "key: value"),
        ("", None, "", "0 jobs"),
    ],
)
def test_problems_name_line_and_key(
    quiet_client: httpx.Client, *, text: str, line: int | None, path: str, words: str
) -> None:
    problem = read(quiet_client, text)["problems"][0]
    assert (problem["line"], problem["path"]) == (line, path)
    assert words in problem["text"]


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x]\nb: *a\n",
        "command: !!python/object/apply:os.system [id]\n",
        "command: !include /etc/passwd\n",
        "[" * 5000,
        "command: x\nenv: {<<: {a: b}}\n",
        "command: x\ngpus: " + "9" * 5000,
        'command: "\\ud800"\n',
        "#!/bin/sh\n#SBATCH --comment='",
        "#!/bin/sh\n#SBATCH " + "-" * 100_000,
        "{" * 100_000,
    ],
)
def test_hostile_texts_are_refused_in_a_sentence(quiet_client: httpx.Client, text: str) -> None:
    (problem,) = read(quiet_client, text)["problems"]
    assert 0 < len(problem["text"]) < 1000


@pytest.mark.parametrize("option", ["nodefile", "export-file", "nodelist", "exclude"])
def test_no_file_of_the_server_is_read(client: httpx.Client, tmp_path: Path, option: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("node-of-a-secret")
    found = read(client, f"#!/bin/sh\n#SBATCH --{option}={secret}\ntrue\n")
    assert found["problems"][0]["line"] == 2
    assert "node-of-a-secret" not in str(found)


def test_environment_of_the_server_is_not_taken_over(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBATCH_TIMELIMIT", "7")
    monkeypatch.setenv("SERVER_SECRET", "s3cret")
    found = read(client, "#!/bin/sh\n#SBATCH --export=ALL,SERVER_SECRET,A=1\ntrue\n")
    assert found["jobs"][0]["env"] == {"A": "1"}
    assert "time_limit_s" not in found["jobs"][0]


def test_home_of_output_files_is_the_callers(client: httpx.Client) -> None:
    (job,) = read(client, "command: x\noutput: ~/out-%j.txt\n")["jobs"]
    assert not job["output"].startswith("~")


def test_long_text_is_bounded_and_other_requests_are_served_meanwhile(
    server: ServerUnderTest, client: httpx.Client
) -> None:
    assert client.post("/job-files", json={"text": "x" * (1 << 20) + "y"}).status_code == 413
    many = read(client, "---\n".join(["command: x\n"] * 10_001))
    assert "10001 jobs" in many["problems"][0]["text"]
    with server.unix() as other:
        began = time.monotonic()
        assert other.get("/healthz").status_code == 200
        assert time.monotonic() - began < 10
