"""Manifests of the kinds that people have, and the jobs that they become."""

from typing import Any

import pytest

from tests.dialects.kubernetes.manifest_story import fields, manifest, refusal
from tgpu.dialects.kubernetes import warnings
from tgpu.dialects.kubernetes.itself import overridden, told
from tgpu.domain.ids import AttemptId
from tgpu.domain.lifecycle import Cause
from tgpu.domain.retries import FailureAction, FailureRule, Retries


def test_the_smallest_one() -> None:
    assert fields() == {}


def test_many_completions_a_few_at_a_time() -> None:
    assert fields(spec__completions=10, spec__parallelism=2) == {
        "completions": 10,
        "parallelism": 2,
        "completion_mode": "NonIndexed",
    }


def test_parallelism_alone_is_a_work_queue() -> None:
    assert fields(spec__parallelism=10) == {"parallelism": 10}


def test_indices_with_limits_of_their_own() -> None:
    found = fields(
        spec__completions=10,
        spec__completionMode="Indexed",
        spec__backoffLimitPerIndex=1,
        spec__maxFailedIndexes=5,
    )
    assert found == {
        "completions": 10,
        "completion_mode": "Indexed",
        "backoff_limit_per_index": 1,
        "max_failures": 5,
    }
    assert "backoff_limit" not in found


def test_what_an_image_runs() -> None:
    assert fields(c__command=["perl"], c__args=["-e", "1"]) == {
        "command": ["perl", "-e", "1"],
        "ignore_entrypoint": True,
    }
    assert fields(c__args=["-e", "1"]) == {"command": ["-e", "1"]}


def test_a_container_without_an_image_is_a_process() -> None:
    found = fields(c__image=None, c__command=["python"], c__args=["train.py"], c__workingDir="/data/me")
    assert found == {"command": ["python", "train.py"], "cwd": "/data/me"}
    found = fields(c__image=None, c__command=["true"], p__hostNetwork=True)
    assert found == {"command": ["true"]}  # in the caller's directory, on the node's network


def test_requests_and_limits() -> None:
    asked = {
        "requests": {"cpu": "1000m", "memory": "2Gi", "ephemeral-storage": "1G"},
        "limits": {"memory": "4Gi", "nvidia.com/gpu": 1, "example.com/licence": "2"},
    }
    assert fields(c__resources=asked) == {
        "cpu_request": 1,
        "mem_request_mb": 2048,
        "mem_limit_mb": 4096,
        "disk_request_mb": 954,
        "gpu_request": 1,
        "generic": {"example.com/licence": 2},
    }


def test_what_is_only_limited_is_reserved() -> None:
    found = fields(c__resources={"limits": {"cpu": 0.5, "memory": "100M", "nvidia.com/gpu": "0"}})
    assert found == {"cpu_request": 0.5, "cpu_limit": 0.5, "mem_request_mb": 96, "mem_limit_mb": 96}


def test_where_it_may_run() -> None:
    found = fields(
        p__nodeSelector={
            "zone": "a",
            "kubernetes.io/os": "linux",
            "kubernetes.io/hostname": "n1",
            "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
        },
        p__tolerations=[
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "team", "value": "vision"},
            {"operator": "Exists"},
        ],
        c__resources={"limits": {"nvidia.com/gpu": 2}},
    )
    assert found == {
        "node_selector": {"zone": "a", "tgpu/host": "n1"},
        "gpu_type": "NVIDIA-A100-SXM4-80GB",
        "tolerations": ["nvidia.com/gpu", "team=vision", "*"],
        "gpu_request": 2,
    }


@pytest.mark.parametrize(
    ("name", "meant"), [("low", "low"), ("high-priority", "high"), ("best-effort", "best-effort")]
)
def test_priority_classes_go_by_their_names(name: str, meant: str) -> None:
    assert fields(p__priorityClassName=name) == {"priority_class": meant}


def test_names_that_are_made_up_and_names_of_containers() -> None:
    assert fields(metadata={"generateName": "tau-"}) == {"name": "tau"}
    assert fields(metadata=None) == {"name": "main"}


def test_variables_and_secrets() -> None:
    env = [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)-$(C)-$$(A)-$$$(A)"},
        {"name": "C"},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token", "optional": False}}},
        {"name": "A", "value": "2"},
    ]
    assert fields(c__env=env, c__args=["$(A)", "$(date)", "$(unclosed", "cost: 5$", "$(C)."]) == {
        "env": {"A": "2", "B": "1-$(C)-$(A)-$1", "C": ""},
        "secret_env": {"KEY": "store:hf.token"},
        "command": ["2", "$(date)", "$(unclosed", "cost: 5$", "."],
    }


def test_what_a_task_is_told_of_itself() -> None:
    """At submission as far as it is known then, and else by its node."""
    paths = {
        "TEAM": "metadata.labels['team']",
        "NOTE": "metadata.annotations['note']",
        "JOB": "metadata.labels['batch.kubernetes.io/job-name']",
        "SPACE": "metadata.namespace",
        "POD": "metadata.name",
        "NODE": "spec.nodeName",
        "INDEX": "metadata.annotations['batch.kubernetes.io/job-completion-index']",
        "LABEL": "metadata.labels['batch.kubernetes.io/job-completion-index']",
    }
    found = fields(
        metadata={"name": "pi", "namespace": "lab"},
        spec__completions=9,
        spec__completionMode="Indexed",
        spec__template__metadata={"labels": {"team": "vision"}, "annotations": {"note": "x"}},
        c__env=[
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in paths.items()
        ],
        c__args=["$(TEAM)"],
    )
    assert found["env"] == {"TEAM": "vision", "NOTE": "x", "JOB": "pi", "SPACE": "lab"}
    assert found["command"] == ["vision"]
    assert told(found["annotations"], AttemptId.parse("42.7.2"), "pi", "n1") == {
        "POD": "pi-42-7-2",
        "NODE": "n1",
        "INDEX": "7",
        "LABEL": "7",
    }
    assert "POD" not in told(overridden(found["annotations"], ["POD"]), AttemptId.parse("42.7.2"), "pi", "n1")
    strange = {"spec.template.spec.containers[0].env[A=B].valueFrom.fieldRef": "metadata.name", "B": "x"}
    assert told(strange, AttemptId.parse("42.7.2"), "pi", "n1") == {}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            {"name": "A", "value": "1"},
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "n", "key": "k"}}},
        ),
        (
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "n", "key": "k"}}},
            {"name": "A", "value": "1"},
        ),
    ],
)
def test_of_two_variables_with_one_name_the_later_holds(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    found = fields(c__env=[first, second])
    assert found == ({"env": {"A": "1"}} if "value" in second else {"secret_env": {"A": "store:n.k"}})


def rules(*written: dict[str, Any]) -> Retries:
    """As the server would keep them."""
    found = fields(spec__podFailurePolicy={"rules": list(written)}).get("failure_rules", [])
    return Retries(
        rules=tuple(
            FailureRule(
                FailureAction(rule["action"]),
                tuple(rule.get("exit_codes", ())),
                tuple(rule.get("not_exit_codes", ())),
                tuple(rule.get("signals", ())),
                tuple(Cause(cause) for cause in rule.get("causes", ())),
            )
            for rule in found
        )
    )


def test_failures_by_exit_code() -> None:
    known = rules(
        {
            "action": "FailJob",
            "onExitCodes": {"operator": "In", "values": [42, 137], "containerName": "main"},
        },
        {"action": "Ignore", "onExitCodes": {"operator": "NotIn", "values": [1, 143]}},
    )
    assert known.action(Cause.EXITED, 42, None) == "fail-job"
    assert known.action(Cause.SIGNALLED, None, 9) == "fail-job"
    assert known.action(Cause.OUT_OF_MEMORY, None, None) == "fail-job"
    assert known.action(Cause.EXITED, 2, None) == "ignore"
    assert known.action(Cause.SIGNALLED, None, 11) == "ignore"
    assert known.action(Cause.EXITED, 1, None) is None
    assert known.action(Cause.SIGNALLED, None, 15) is None


def test_failures_that_are_not_the_program_s() -> None:
    known = rules({"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]})
    for cause in (Cause.PREEMPTED, Cause.NODE_LOST, Cause.REBOOTED, Cause.MEMORY_PRESSURE):
        assert known.action(cause, None, 15) == "fail-job"
    assert known.action(Cause.EXITED, 1, None) is None


def test_parallelism_of_nothing_and_of_less_than_nothing() -> None:
    assert fields(spec__parallelism=0) == {"parallelism": 0}  # that is suspended
    assert refusal(spec__parallelism=-1) == "spec.parallelism must be from 0 to 2147483647; got -1"


QUEUE = {"kueue.x-k8s.io/queue-name": "team-a"}


def test_suspended_job_of_a_kueue_queue_is_queued() -> None:
    assert "suspend" not in fields(spec__suspend=True, metadata__labels=QUEUE)
    assert "suspend" not in fields(spec__suspend=True, metadata__annotations=QUEUE)
    (text,) = warnings(manifest(spec__suspend=True, metadata__labels=QUEUE))
    assert text.startswith("spec.suspend is ignored because of kueue.x-k8s.io/queue-name=team-a: ")


def test_suspended_job_warns_that_it_does_not_start() -> None:
    assert fields(spec__suspend=True) == {"suspend": True}
    assert warnings(manifest(spec__suspend=True)) == [
        "spec.suspend is true: the job does not start until `tgpu resume`"
    ]
    assert warnings(manifest(metadata__labels=QUEUE)) == []
