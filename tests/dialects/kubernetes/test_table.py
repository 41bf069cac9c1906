"""The tables of fields, which docs/kubernetes.md shows: every field is there, and becomes what they say."""

from typing import Any

import pytest

from tests.dialects.kubernetes.fields_of_the_api import FIELDS
from tests.dialects.kubernetes.manifest_story import manifest, put
from tgpu.dialects.kubernetes import ManifestError, job_fields, shape
from tgpu.dialects.kubernetes.field import Verdict
from tgpu.dialects.kubernetes.tables import TABLES

RULE = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}
DISRUPTED = {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
SECRET = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}
ITSELF = {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
PLACES = {
    "Job": "",
    "ObjectMeta": "metadata",
    "JobSpec": "spec",
    "PodFailurePolicy": "spec.podFailurePolicy",
    "PodFailurePolicyRule": "spec.podFailurePolicy.rules.0",
    "PodFailurePolicyOnExitCodesRequirement": "spec.podFailurePolicy.rules.0.onExitCodes",
    "PodFailurePolicyOnPodConditionsPattern": "spec.podFailurePolicy.rules.1.onPodConditions.0",
    "PodTemplateSpec": "spec.template",
    "PodMeta": "spec.template.metadata",
    "PodSpec": "spec.template.spec",
    "Toleration": "spec.template.spec.tolerations.0",
    "Container": "spec.template.spec.containers.0",
    "EnvVar": "spec.template.spec.containers.0.env.0",
    "EnvVarSource": "spec.template.spec.containers.0.env.1.valueFrom",
    "ObjectFieldSelector": "spec.template.spec.containers.0.env.2.valueFrom.fieldRef",
    "SecretKeySelector": "spec.template.spec.containers.0.env.1.valueFrom.secretKeyRef",
    "ResourceRequirements": "spec.template.spec.containers.0.resources",
    "SecurityContext": "spec.template.spec.containers.0.securityContext",
    "Capabilities": "spec.template.spec.containers.0.securityContext.capabilities",
}
ASKS = {"spec.template.spec.containers[0].env[WHO].valueFrom.fieldRef": "metadata.name"}
# What a field is given, and what the API is then told otherwise than without it.
SAMPLES: dict[tuple[str, str], tuple[object, dict[str, Any]]] = {
    ("ObjectMeta", "name"): ("tau", {"name": "tau"}),
    ("ObjectMeta", "namespace"): ("lab", {"tenant_id": "lab"}),
    ("ObjectMeta", "labels"): ({"a/b": "c"}, {"annotations": {"metadata.labels[a/b]": "c"} | ASKS}),
    ("ObjectMeta", "annotations"): ({"a": "c"}, {"annotations": {"metadata.annotations[a]": "c"} | ASKS}),
    ("JobSpec", "parallelism"): (3, {"parallelism": 3}),
    ("JobSpec", "completions"): (3, {"completions": 3}),
    ("JobSpec", "activeDeadlineSeconds"): (60, {"active_deadline_s": 60}),
    ("JobSpec", "backoffLimit"): (4, {"backoff_limit": 4}),
    ("JobSpec", "backoffLimitPerIndex"): (2, {"backoff_limit_per_index": 2}),
    ("JobSpec", "maxFailedIndexes"): (5, {"max_failures": 5}),
    ("JobSpec", "ttlSecondsAfterFinished"): (0, {"ttl_after_finished_s": 0}),
    ("JobSpec", "completionMode"): ("NonIndexed", {"completion_mode": "NonIndexed"}),
    ("JobSpec", "suspend"): (True, {"suspend": True}),
    ("PodMeta", "name"): ("tau", {"annotations": {"spec.template.metadata.name": "tau"} | ASKS}),
    ("PodMeta", "labels"): ({"a": "b"}, {"annotations": {"spec.template.metadata.labels[a]": "b"} | ASKS}),
    ("PodMeta", "annotations"): (
        {"a": "b"}, {"annotations": {"spec.template.metadata.annotations[a]": "b"} | ASKS}
    ),
    ("PodSpec", "terminationGracePeriodSeconds"): (0, {"grace_s": 0}),
    ("PodSpec", "activeDeadlineSeconds"): (60, {"time_limit_s": 60}),
    ("PodSpec", "nodeSelector"): ({"zone": "a"}, {"node_selector": {"zone": "a"}}),
    ("PodSpec", "nodeName"): ("n1", {"node_selector": {"tgpu/host": "n1"}}),
    ("PodSpec", "hostNetwork"): (True, {"network": "host"}),
    ("PodSpec", "priorityClassName"): ("low", {"priority_class": "low"}),
    ("Toleration", "key"): ("team", {"tolerations": ["team=vision"]}),
    ("Toleration", "value"): ("nlp", {"tolerations": ["spot=nlp"]}),
    ("Container", "image"): ("tools:2", {"image": "tools:2"}),
    ("Container", "command"): (["sh"], {"command": ["sh", "x"], "ignore_entrypoint": True}),
    ("Container", "args"): (["y"], {"command": ["y"]}),
    ("Container", "workingDir"): ("/app", {"container_cwd": "/app"}),
    ("Container", "imagePullPolicy"): ("IfNotPresent", {"pull": "missing"}),
    ("Container", "tty"): (True, {"pty": True}),
    ("EnvVar", "name"): ("B", {"env": {"B": "1"}}),
    ("EnvVar", "value"): ("2", {"env": {"A": "2"}}),
    ("ObjectFieldSelector", "fieldPath"): (
        "spec.nodeName",
        {"annotations": {"spec.template.spec.containers[0].env[WHO].valueFrom.fieldRef": "spec.nodeName"}},
    ),
    ("SecretKeySelector", "name"): ("wb", {"secret_env": {"KEY": "store:wb.token"}}),
    ("SecretKeySelector", "key"): ("other", {"secret_env": {"KEY": "store:hf.other"}}),
    ("ResourceRequirements", "limits"): ({"cpu": 2}, {"cpu_request": 2, "cpu_limit": 2}),
    ("ResourceRequirements", "requests"): ({"memory": "1Gi"}, {"mem_request_mb": 1024}),
    ("SecurityContext", "readOnlyRootFilesystem"): (True, {"read_only": True}),
    ("PodFailurePolicyRule", "action"): (
        "Ignore", {"failure_rules": [{"action": "ignore", "exit_codes": [3]}]}
    ),
    ("PodFailurePolicyOnExitCodesRequirement", "values"): (
        [4], {"failure_rules": [{"action": "fail-job", "exit_codes": [4]}]}
    ),
}  # fmt: skip
# What changes nothing where it says what holds anyway, and is refused where it says anything else.
CHECKED: dict[tuple[str, str], tuple[object, object]] = {
    ("Job", "apiVersion"): ("batch/v1", "batch/v2"),
    ("Job", "kind"): ("Job", "CronJob"),
    ("ObjectMeta", "generateName"): ("tau-", 1),
    ("PodSpec", "restartPolicy"): ("OnFailure", "Always"),
    ("PodSpec", "enableServiceLinks"): (False, 1),
    ("Toleration", "operator"): ("Equal", "Gt"),
    ("Toleration", "effect"): ("NoSchedule", "NoExecute"),
    ("Container", "name"): ("other", 1),
    ("Container", "stdin"): (False, True),
    ("Capabilities", "drop"): (["ALL"], "ALL"),
    ("PodFailurePolicyOnExitCodesRequirement", "operator"): ("In", "Among"),
    ("PodFailurePolicyOnExitCodesRequirement", "containerName"): ("main", "other"),
    ("PodFailurePolicyOnPodConditionsPattern", "type"): ("DisruptionTarget", "ConfigIssue"),
    ("PodFailurePolicyOnPodConditionsPattern", "status"): ("True", "False"),
}
TAKEN = [
    (name, field)
    for name, table in TABLES.items()
    for field, what in table.items()
    if what.verdict is not Verdict.REFUSED and what.of is None
]
REFUSED = [
    (name, field)
    for name, table in TABLES.items()
    for field, what in table.items()
    if what.verdict is Verdict.REFUSED
]


def full(*, restarted: bool = False) -> dict[str, Any]:
    """A manifest in which every object stands; but rules for failures, if its pods are restarted."""
    return manifest(
        spec__podFailurePolicy=None if restarted else {"rules": [RULE, DISRUPTED]},
        spec__template__metadata={},
        p__tolerations=[{"key": "spot", "value": "vision"}],
        c__args=["x"],
        c__env=[{"name": "A", "value": "1"}, SECRET, ITSELF],
        c__resources={},
        c__securityContext={"capabilities": {}},
    )


def with_field(name: str, field: str, value: object) -> dict[str, Any]:
    made = full(restarted=value == "OnFailure")
    if (name, field) in (("JobSpec", "backoffLimitPerIndex"), ("JobSpec", "maxFailedIndexes")):
        made["spec"] |= {"completions": 9, "completionMode": "Indexed", "backoffLimitPerIndex": 1}
    if (name, field) == ("JobSpec", "completionMode"):
        made["spec"]["completions"] = 9
    put(made, ".".join(part for part in (PLACES[name], field) if part), value)
    return made


def path_of(name: str, field: str) -> str:
    words = ".".join(part for part in (PLACES[name], field) if part).split(".")
    return "".join(f"[{word}]" if word.isdigit() else f".{word}" for word in words).removeprefix(".")


@pytest.mark.parametrize("name", TABLES)
def test_every_field_of_the_api_is_in_the_table(name: str) -> None:
    assert sorted(TABLES[name]) == sorted(FIELDS[name])


@pytest.mark.parametrize("name", TABLES)
def test_what_is_not_refused_is_what_is_read(name: str) -> None:
    read = getattr(shape, name).__struct_encode_fields__
    assert sorted(read) == sorted(
        field for field, what in TABLES[name].items() if what.verdict is not Verdict.REFUSED
    )


def test_every_field_that_is_taken_has_a_sample_here() -> None:
    assert sorted(SAMPLES | CHECKED) == sorted(TAKEN)


@pytest.mark.parametrize(("name", "field"), SAMPLES)
def test_a_field_that_is_taken_becomes_something(name: str, field: str) -> None:
    value, expected = SAMPLES[name, field]
    before, after = job_fields(full()), job_fields(with_field(name, field, value))
    changed = {key: after.get(key) for key in expected}
    if name.startswith("PodFailurePolicy"):
        changed["failure_rules"] = changed["failure_rules"][:1]
    assert changed == expected
    assert {key: before.get(key) for key in expected} != expected


@pytest.mark.parametrize(("name", "field"), CHECKED)
def test_a_field_with_one_meaning_is_refused_with_another(name: str, field: str) -> None:
    right, wrong = CHECKED[name, field]
    assert job_fields(with_field(name, field, right)) == job_fields(full(restarted=right == "OnFailure"))
    with pytest.raises(ManifestError) as refused:
        job_fields(with_field(name, field, wrong))
    assert refused.value.refusals[0].path == path_of(name, field)


@pytest.mark.parametrize(("name", "field"), REFUSED)
def test_a_field_that_is_refused_is_told_by_its_path(name: str, field: str) -> None:
    what = TABLES[name][field]
    with pytest.raises(ManifestError) as refused:
        job_fields(with_field(name, field, [{"name": "x"}]))
    assert [refusal.path for refusal in refused.value.refusals] == [path_of(name, field)]
    assert str(refused.value) == f"{path_of(name, field)} {what.words}"
    for value in (None, {}, [], "", *what.unless):
        assert job_fields(with_field(name, field, value)) == job_fields(full())
