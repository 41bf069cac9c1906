"""A pod to where a task may run, how it ranks and how it ends."""

from typing import Any

from tgpu.dialects.kubernetes.problems import refused
from tgpu.dialects.kubernetes.shape import PodSpec, Toleration
from tgpu.domain.node_terms import EVERY_TAINT, HOST_LABEL
from tgpu.domain.priority import PriorityClass

_AT = "spec.template.spec"
_HOST = "kubernetes.io/hostname"
_OS = "kubernetes.io/os"
_GPU_MODEL = "nvidia.com/gpu.product"
_LINUX = "linux"
_MOST = 2**31 - 1


def pod_fields(asked: PodSpec) -> dict[str, Any]:
    """All that is not its container's."""
    fields: dict[str, Any] = {**_where(asked)}
    if asked.tolerations:
        fields["tolerations"] = [
            _toleration(one, f"{_AT}.tolerations[{at}]") for at, one in enumerate(asked.tolerations)
        ]
    if asked.priority_class_name:
        fields["priority_class"] = _class(asked.priority_class_name)
    for name, seconds, field, least in (
        ("terminationGracePeriodSeconds", asked.termination_grace_period_seconds, "grace_s", 0),
        ("activeDeadlineSeconds", asked.active_deadline_seconds, "time_limit_s", 1),
    ):
        if seconds is not None:
            fields[field] = bounded(least, seconds, f"{_AT}.{name}")
    if asked.host_network and asked.containers[0].image:
        fields["network"] = "host"
    return fields


def bounded(least: int, number: int, path: str) -> int:
    if not least <= number <= _MOST:
        raise refused(path, f"must be from {least} to {_MOST}; got {number}")
    return number


def _where(asked: PodSpec) -> dict[str, Any]:
    labels = dict(asked.node_selector)
    fields: dict[str, Any] = {}
    system = labels.pop(_OS, _LINUX)
    if system != _LINUX:
        raise refused(f"{_AT}.nodeSelector[{_OS}]", f"can only be {_LINUX}; got {system[:80]!r}")
    host = labels.pop(_HOST, "")
    if host and asked.node_name not in ("", host):
        raise refused(f"{_AT}.nodeName", f"is {asked.node_name}, and the nodeSelector wants {host}: keep one")
    if host or asked.node_name:
        labels[HOST_LABEL] = host or asked.node_name
    if _GPU_MODEL in labels:
        fields["gpu_type"] = labels.pop(_GPU_MODEL)
    return fields | ({"node_selector": labels} if labels else {})


def _toleration(asked: Toleration, path: str) -> str:
    if asked.operator == "Exists":
        if asked.value:
            raise refused(f"{path}.value", "can be said only with the operator Equal")
        return asked.key or EVERY_TAINT
    if not asked.key:
        raise refused(f"{path}.key", "is missing: without one the operator must be Exists")
    return f"{asked.key}={asked.value}" if asked.value else asked.key


def _class(name: str) -> str:
    known = [one.value for one in PriorityClass]
    meant = name.removesuffix("-priority")
    if meant not in known:
        raise refused(f"{_AT}.priorityClassName", f"must be one of {', '.join(known)}; got {name[:80]!r}")
    return meant
