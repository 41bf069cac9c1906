"""`tgpu submit -f` with Job manifests of Kubernetes, up to what the server is told."""

from pathlib import Path

import pytest
from fake_tgpu import FakeTgpu, Refusal

from tests.cli.cli_process import Tgpu

IN_IMAGE = """
apiVersion: batch/v1
kind: Job
metadata: {name: boxed}
spec:
  backoffLimit: 4
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: "tools:1", command: [sh, -c, "echo $HOME"]}
"""
PROCESS = """
apiVersion: batch/v1
kind: Job
metadata: {name: bare}
spec:
  completions: 3
  template:
    spec:
      restartPolicy: OnFailure
      containers:
      - {name: main, command: ["true"], env: [{name: A, value: "1"}]}
"""


def test_a_manifest_in_an_image_takes_nothing_of_the_caller_along(server: FakeTgpu, tgpu: Tgpu) -> None:
    done = tgpu("submit", "-f", "-", stdin=IN_IMAGE)
    assert (done.stdout, done.stderr) == ("Submitted job 1\n", "")
    (sent,) = server.submitted()
    assert sent.pop("submit_host")
    assert sent == {
        "name": "boxed",
        "dialect": "kubernetes",
        "image": "tools:1",
        "command": ["sh", "-c", "echo $HOME"],
        "ignore_entrypoint": True,
        "backoff_limit": 4,
        "cwd": "/",
        "env": {},
    }


def test_a_manifest_without_an_image_is_a_process_of_the_caller(
    server: FakeTgpu, tgpu: Tgpu, tmp_path: Path
) -> None:
    assert tgpu("submit", "-f", "-", stdin=PROCESS, EPOCHS="3").returncode == 0
    (sent,) = server.submitted()
    assert (sent["command"], sent["cwd"]) == (["true"], str(tmp_path / "work"))
    assert (sent["env"]["A"], sent["env"]["EPOCHS"]) == ("1", "3")
    assert (sent["completions"], sent["completion_mode"], sent["backoff_limit"]) == (3, "NonIndexed", 6)


def test_suspended_manifest_is_submitted_with_a_warning(server: FakeTgpu, tgpu: Tgpu) -> None:
    done = tgpu("submit", "-f", "-", stdin=IN_IMAGE.replace("backoffLimit: 4", "suspend: true"))
    assert done.stderr == "tgpu: -: spec.suspend is true: the job does not start until `tgpu resume`\n"
    (sent,) = server.submitted()
    assert sent["suspend"] is True


def test_flags_override_it(server: FakeTgpu, tgpu: Tgpu) -> None:
    assert tgpu("submit", "-f", "-", "--gpus", "2", "--name", "other", stdin=IN_IMAGE).returncode == 0
    (sent,) = server.submitted()
    assert (sent["name"], sent["gpu_request"]) == ("other", 2)
    asks = ", env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}"
    text = PROCESS.replace(', env: [{name: A, value: "1"}]}', asks)
    for flags, left in ([], 1), (["--env", "POD=mine"], 0):
        assert tgpu("submit", "-f", "-", *flags, stdin=text, POD="of the caller").returncode == 0
        assert len(server.submitted()[-1]["annotations"]) == left
    assert server.submitted()[-1]["env"]["POD"] == "mine"


def test_an_image_alone_says_what_runs(server: FakeTgpu, tgpu: Tgpu) -> None:
    text = IN_IMAGE.replace(', command: [sh, -c, "echo $HOME"]', "")
    assert tgpu("submit", "-f", "-", stdin=text).returncode == 0
    assert server.submitted()[0]["command"] == []


def test_many_documents_of_both_forms_are_one_submission(server: FakeTgpu, tgpu: Tgpu) -> None:
    text = f"{IN_IMAGE}---\n# nothing\n---\ncommand: own\n---{PROCESS}"
    assert tgpu("submit", "-f", "-", stdin=text).stdout == "Submitted 3 jobs: 1-3\n"
    jobs = server.submitted()[0]["jobs"]
    assert [job.get("name") for job in jobs] == ["boxed", None, "bare"]
    assert [job.get("dialect") for job in jobs] == ["kubernetes", None, "kubernetes"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            IN_IMAGE.replace("restartPolicy: Never", "restartPolicy: Never\n      volumes: [{name: x}]"),
            "-: spec.template.spec.volumes is not supported: say --mount",
        ),
        (f"{IN_IMAGE}---\n{IN_IMAGE.replace('Job', 'Pod')}", "-, job 2: kind must be Job; got 'Pod'"),
        (f"{IN_IMAGE}---\ncomand: x", "-, job 2: unknown key 'comand'"),
        ("kind: Job", "-: apiVersion is missing: say apiVersion: batch/v1"),
        (IN_IMAGE.replace("  template", "\ttemplate"), "- is not a job file: a tab cannot stand here"),
        (f"{IN_IMAGE}kind: Job\n", "- is not a job file: key 'kind' is given twice"),
    ],
)
def test_one_wrong_document_and_nothing_is_submitted(
    server: FakeTgpu, tgpu: Tgpu, text: str, said: str
) -> None:
    done = tgpu("submit", "-f", "-", stdin=text)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"tgpu: {said}"), done.stderr
    assert server.submitted() == []


@pytest.mark.parametrize(
    ("detail", "args", "said"),
    [
        (
            "grace_s may be at most 5m",
            [],
            "spec.template.spec.terminationGracePeriodSeconds may be at most 5m",
        ),
        ("tenant_id: there is no tenant x", [], "metadata.namespace: there is no tenant x"),
        ("gpu_request must be", ["--gpus", "2"], "--gpus must be"),
        ("needs 9 GPUs; the largest node has 8", [], "needs 9 GPUs; the largest node has 8"),
    ],
)
def test_what_the_server_refuses_is_told_by_path(
    server: FakeTgpu, tgpu: Tgpu, *, detail: str, args: list[str], said: str
) -> None:
    server.fixed["/jobs"] = Refusal(422, detail, kind="invalid-field", field="x")
    assert tgpu("submit", "-f", "-", *args, stdin=IN_IMAGE).stderr == f"tgpu: {said}\n"


def test_of_many_the_server_s_refusal_names_document_and_path(
    server: FakeTgpu, tgpu: Tgpu, tmp_path: Path
) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(f"command: a\n---{PROCESS}")
    server.fixed["/jobs"] = Refusal(
        422, "jobs[1].completions may be at most 9", kind="invalid-field", field="x"
    )
    done = tgpu("submit", "-f", str(file))
    assert done.stderr == f"tgpu: job 2 of {file}: spec.completions may be at most 9\n"
