"""What is refused, in words that name the path and say what to do."""

import pytest

from tests.dialects.kubernetes.manifest_story import manifest, refusal
from tgpu.dialects.kubernetes import ManifestError, job_fields

C = "spec.template.spec.containers[0]"
P = "spec.template.spec"
INDEX_PATH = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def test_all_that_is_refused_is_told_at_once() -> None:
    said = refusal(p__volumes=[{"name": "x"}], c__volumeMounts=[{"name": "x"}], spec__succesPolicy={})
    assert said == (
        f"{P}.containers[0].volumeMounts is not supported: say --mount SOURCE:TARGET for a path of the node, "
        f"--shm-size for /dev/shm; refused as well: {P}.volumes, spec.succesPolicy"
    )


def test_wrong_types_and_a_second_container_are_told_with_the_rest() -> None:
    two = [{"name": "a", "image": "x", "env": [{"name": "A", "value": 5}]}, {"name": "b", "image": 1}]
    said = refusal(p__containers=two, p__initContainers=[{"name": "x"}])
    assert said.startswith(f"{P}.containers[1] is not supported: a task is one container; programs that run")
    assert said.endswith(f"; refused as well: {P}.initContainers, {C}.env[0].value, {P}.containers[1].image")
    said = refusal(p__volumes=[{"name": "x"}], spec__completions="3", p__restartPolicy="Always")
    assert said.startswith(f"{P}.volumes is not supported: ")
    assert said.endswith(f"; refused as well: {P}.restartPolicy, spec.completions")
    said = refusal(p__nodeSelector={"a": 1, "b": "x", "c": True}, c__command=["a", None])
    assert said == (
        f"{C}.command[1] must be text; got null; refused as well: {P}.nodeSelector[a], {P}.nodeSelector[c]"
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "job"}, "kind must be Job; got 'job': write it Job"),
        ({"kind": "Pod"}, "kind must be Job; got 'Pod': write it as the template of a Job"),
        ({"kind": "CronJob"}, "kind must be Job; got 'CronJob': submit its jobTemplate as a Job"),
        ({"kind": "Deployment"}, "kind must be Job; got 'Deployment': leave it out"),
        ({"kind": None}, "kind is missing: say kind: Job"),
        ({"apiVersion": None}, "apiVersion is missing: say apiVersion: batch/v1"),
        ({"apiVersion": "batch/v1beta1"}, "apiVersion must be batch/v1; got 'batch/v1beta1'"),
        ({"spec": None}, "spec is missing"),
        ({"spec": []}, "spec must be a mapping; got a list"),
        ({"spec__template": {}}, "spec.template.spec is missing"),
        (
            {"spec__complitions": 3},
            "spec.complitions is no field of a Job manifest; did you mean completions?",
        ),
        ({"spec__completions": "3"}, "spec.completions must be a whole number; got text"),
        ({"spec__completions": True}, "spec.completions must be a whole number; got true or false"),
        ({"spec__completions": 0}, "spec.completions must be from 1 to 2147483647; got 0"),
        ({"spec__completions": 10**30}, "spec.completions must be from 1 to 2147483647; got 1000"),
        ({"spec__backoffLimit": 1.5}, "spec.backoffLimit must be a whole number; got a number"),
        ({"spec__completionMode": "Indexed"}, "spec.completions is missing: with completionMode Indexed"),
        (
            {"spec__backoffLimitPerIndex": 1},
            "spec.backoffLimitPerIndex needs spec.completionMode to be Indexed",
        ),
        ({"spec__maxFailedIndexes": 1}, "spec.maxFailedIndexes needs spec.backoffLimitPerIndex"),
        ({"spec__suspend": "yes"}, "spec.suspend must be true or false; got text"),
        ({"p__restartPolicy": None}, f"{P}.restartPolicy is missing: say Never or OnFailure"),
        (
            {"p__restartPolicy": "Always"},
            f"{P}.restartPolicy cannot be 'Always' here: `Never` or `OnFailure`",
        ),
        ({"p__containers": []}, f"{P}.containers is empty: say what to run"),
        ({"p__containers": {}}, f"{P}.containers must be a list; got a mapping"),
        ({"p__containers": ["x"]}, f"{P}.containers[0] must be a mapping; got text"),
        (
            {"p__initContainers": [{"name": "x"}]},
            f"{P}.initContainers is not supported: a task is one container",
        ),
        ({"p__nodeSelector": {"a": 1}}, f"{P}.nodeSelector[a] must be text; got a whole number: put quotes"),
        (
            {"p__nodeSelector": {1: "a"}},
            f"{P}.nodeSelector must have text for its keys: put quotes around them",
        ),
        (
            {"p__nodeSelector": {"kubernetes.io/os": "windows"}},
            f"{P}.nodeSelector[kubernetes.io/os] can only be",
        ),
        (
            {"p__nodeSelector": {"kubernetes.io/hostname": "a"}, "p__nodeName": "b"},
            f"{P}.nodeName is b, and the nodeSelector wants a: keep one",
        ),
        (
            {"p__nodeSelector": {"nvidia.com/gpu.product": "A100"}},
            f"{P}.nodeSelector[nvidia.com/gpu.product] says which GPU: ask for some, with {C}.resources",
        ),
        ({"p__tolerations": [{"value": "x"}]}, f"{P}.tolerations[0].key is missing"),
        (
            {"p__tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]},
            f"{P}.tolerations[0].value can be said only with the operator Equal",
        ),
        ({"p__tolerations": [{"key": "a", "effect": "NoExecute"}]}, f"{P}.tolerations[0].effect cannot be"),
        (
            {"p__priorityClassName": "gold"},
            f"{P}.priorityClassName must be one of real-time, high, default, low",
        ),
        ({"p__hostPID": 0}, f"{P}.hostPID can only be false"),  # 0 is not false
        ({"p__hostPID": True}, f"{P}.hostPID can only be false: a container has namespaces of its own"),
        ({"p__hostIPC": True}, f"{P}.hostIPC can only be false: a container has namespaces of its own"),
        ({"p__shareProcessNamespace": True}, f"{P}.shareProcessNamespace can only be false"),
        ({"p__hostUsers": False}, f"{P}.hostUsers can only be true: users are the node's own"),
        ({"c__securityContext": {"procMount": "Unmasked"}}, f"{C}.securityContext.procMount"),
        ({"c__command": ["a", 1]}, f"{C}.command[1] must be text; got a whole number: put quotes around it"),
        (
            {"c__env": [{"name": "A", "value": 5}]},
            f"{C}.env[0].value must be text; got a whole number: put quotes",
        ),
        ({"c__env": [{"value": "5"}]}, f"{C}.env[0].name is missing"),
        ({"c__env": {"A": "5"}}, f"{C}.env must be a list; got a mapping"),
        ({"c__env": [{"name": "", "value": "5"}]}, f"{C}.env[0].name is empty: say which variable"),
        (
            {"c__env": [{"name": "A", "valueFrom": {}}]},
            f"{C}.env[0].valueFrom must say one thing: either secretKeyRef or fieldRef",
        ),
        (
            {"c__env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]},
            f"{C}.env[0].valueFrom.fieldRef.fieldPath cannot be 'status.podIP' here: metadata.name, ",
        ),
        (
            {"c__env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}]},
            f"{C}.env[0].valueFrom.fieldRef.fieldPath asks for a namespace, and the manifest names none: say",
        ),
        (
            {"c__env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}}]},
            f"{C}.env[0].valueFrom.fieldRef.fieldPath is not known: say spec.template.metadata.labels[a]",
        ),
        (
            {"c__env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": INDEX_PATH}}}]},
            f"{C}.env[0].valueFrom.fieldRef.fieldPath names an index: that needs spec.completionMode to be",
        ),
        ({"c__image": None}, f"{C}.command is missing: without an image nothing else says what to run"),
        ({"c__image": None, "c__args": ["a"]}, f"{C}.command is missing"),
        (
            {"c__image": None, "c__command": ["a"], "c__imagePullPolicy": "Never"},
            f"{C}.imagePullPolicy is about a container: say image, too, or leave it out",
        ),
        ({"c__stdin": True}, f"{C}.stdin can be true only with tty"),
        ({"c__securityContext": {"privileged": True}}, f"{C}.securityContext.privileged can only be false"),
        (
            {"c__securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}},
            f"{C}.securityContext.capabilities.add is not supported",
        ),
    ],
)
def test_a_refusal_names_the_path(changes: dict[str, object], said: str) -> None:
    assert refusal(**changes).startswith(said)


@pytest.mark.parametrize("where", ["metadata", "spec__template__metadata"])
def test_an_annotation_opens_no_namespace_of_the_node(where: str) -> None:
    """It is kept as what it is: a note."""
    note = {
        "io.podman.annotations.userns": "host",
        "io.kubernetes.cri-o.userns-mode": "host",
        "hostPID": "true",
    }
    usual, found = job_fields(manifest()), job_fields(manifest(**{f"{where}__annotations": note}))
    path = where.replace("__", ".")
    assert found == {
        **usual,
        "annotations": {f"{path}.annotations[{key}]": text for key, text in note.items()},
    }


def test_several_containers_are_groups_of_another_form() -> None:
    two = [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]
    assert refusal(p__containers=two).startswith(
        f"{P}.containers[1] is not supported: a task is one container;"
    )


@pytest.mark.parametrize(
    ("resources", "said"),
    [
        ({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}, "requests[cpu] is more than the limit 1: got 2"),
        ({"requests": {"cpu": 0}}, "requests[cpu] must be more than 0"),
        ({"requests": {"cpu": "0.5m"}}, "requests[cpu] may be as fine as 1m; got 0.5m"),
        ({"requests": {"cpu": "half"}}, "requests[cpu] must be an amount such as 500m or 2; got 'half'"),
        (
            {"requests": {"cpu": True}},
            "requests[cpu] must be a whole number or a number or text; got true or",
        ),
        ({"requests": {"memory": "-1Gi"}}, "requests[memory] must not be negative; got -1Gi"),
        (
            {"requests": {"memory": "2GB"}},
            "requests[memory] must be an amount such as 512Mi or 2Gi; got '2GB'",
        ),
        ({"requests": {"memory": "9" * 60}}, "requests[memory] must be an amount such as"),
        ({"requests": {"memory": "1e99"}}, "requests[memory] may be at most 1Ei; got 1e99"),
        ({"limits": {"memory": 0}}, "limits[memory] must be more than 0"),
        ({"limits": {"nvidia.com/gpu": 0.5}}, "limits[nvidia.com/gpu] must be a whole number; got 0.5"),
        ({"requests": {"nvidia.com/gpu": 1}}, "requests[nvidia.com/gpu] needs the same limit"),
        (
            {"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}},
            "requests[nvidia.com/gpu] must be as much as its limit",
        ),
        ({"limits": {"nvidia.com/mig-1g.5gb": 1}}, "limits[nvidia.com/mig-1g.5gb] is not supported: only"),
        ({"limits": {"gpu": 1}}, "limits[gpu] is not known"),
        ({"limits": {"hugepages-2Mi": "4Mi"}}, "limits[hugepages-2Mi] is not known"),
    ],
)
def test_amounts_that_cannot_be_meant(resources: dict[str, object], said: str) -> None:
    assert refusal(c__resources=resources).startswith(f"{C}.resources.{said}")


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"action": "FailJob"}, " must say either onExitCodes or onPodConditions"),
        (
            {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1]}},
            ".action can be FailIndex only with spec.backoffLimitPerIndex",
        ),
        (
            {"action": "Restart", "onPodConditions": [{"type": "DisruptionTarget"}]},
            ".action cannot be 'Restart'",
        ),
        (
            {"action": "Count", "onExitCodes": {"operator": "In", "values": [0]}},
            ".onExitCodes.values[0] must be an exit code from 1 to 255; got 0",
        ),
        (
            {"action": "Count", "onExitCodes": {"operator": "In", "values": [7, 7]}},
            ".onExitCodes.values must be 1 to 255 exit codes, each once",
        ),
        (
            {"action": "Count", "onExitCodes": {"operator": "In", "values": [7], "containerName": "x"}},
            ".onExitCodes.containerName must be main, as the container is called",
        ),
        (
            {"action": "Count", "onPodConditions": [{"type": "Ready"}]},
            ".onPodConditions[0].type cannot be 'Ready'",
        ),
    ],
)
def test_rules_that_cannot_be_meant(rule: dict[str, object], said: str) -> None:
    assert refusal(spec__podFailurePolicy={"rules": [rule]}).startswith(
        f"spec.podFailurePolicy.rules[0]{said}"
    )


def test_rules_need_pods_that_are_not_restarted() -> None:
    rule = {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget"}]}
    said = refusal(spec__podFailurePolicy={"rules": [rule]}, p__restartPolicy="OnFailure")
    assert said == "spec.podFailurePolicy needs spec.template.spec.restartPolicy to be Never"
    assert refusal(spec__podFailurePolicy={"rules": [rule] * 21}).startswith(
        "spec.podFailurePolicy.rules may have"
    )


@pytest.mark.parametrize("name", ["KEY", "JOB_COMPLETION_INDEX"])
def test_a_value_that_is_not_known_yet_cannot_be_put_into_a_command(name: str) -> None:
    secret = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}
    told = f"has $({name}), whose value is known only when it runs: let a shell read it, as ${name}"
    indexed = {"spec__completions": 2, "spec__completionMode": "Indexed", "c__env": [secret]}
    assert refusal(**indexed, c__args=["a", f"--x=$({name})"]) == f"{C}.args[1] {told}"
    indexed["c__env"] = [secret, {"name": "B", "value": f"$({name})"}]
    assert refusal(**indexed) == f"{C}.env[1].value {told}"


def test_keys_that_are_no_text() -> None:
    made = manifest()
    made["spec"][5] = 6
    with pytest.raises(ManifestError, match=r"^spec\.5 is no field of a Job manifest$"):
        job_fields(made)
