"""A whole manifest to the fields of tgpu's API."""

from collections.abc import Mapping
from typing import Any

from tgpu.dialects.kubernetes.container import container_fields
from tgpu.dialects.kubernetes.failure_rules import failure_rules
from tgpu.dialects.kubernetes.itself import Itself
from tgpu.dialects.kubernetes.pod import bounded, pod_fields
from tgpu.dialects.kubernetes.problems import refused
from tgpu.dialects.kubernetes.reading import manifest
from tgpu.dialects.kubernetes.shape import Container, Job, JobSpec, PodSpec

DIALECT = "kubernetes"
_POD = "spec.template.spec"
_CONTAINER = f"{_POD}.containers[0]"
_BACKOFF_LIMIT = 6
"""What Kubernetes takes where nothing is said."""
_KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
_PATHS = {
    "name": "metadata.name",
    "tenant_id": "metadata.namespace",
    "image": f"{_CONTAINER}.image",
    "command": f"{_CONTAINER}.command",
    "cwd": f"{_CONTAINER}.workingDir",
    "container_cwd": f"{_CONTAINER}.workingDir",
    "env": f"{_CONTAINER}.env",
    "secret_env": f"{_CONTAINER}.env",
    "pull": f"{_CONTAINER}.imagePullPolicy",
    "read_only": f"{_CONTAINER}.securityContext.readOnlyRootFilesystem",
    "pty": f"{_CONTAINER}.tty",
    "cpu_request": f"{_CONTAINER}.resources.requests[cpu]",
    "cpu_limit": f"{_CONTAINER}.resources.limits[cpu]",
    "mem_request_mb": f"{_CONTAINER}.resources.requests[memory]",
    "mem_limit_mb": f"{_CONTAINER}.resources.limits[memory]",
    "disk_request_mb": f"{_CONTAINER}.resources.requests[ephemeral-storage]",
    "gpu_request": f"{_CONTAINER}.resources.limits[nvidia.com/gpu]",
    "generic": f"{_CONTAINER}.resources.limits",
    "gpu_type": f"{_POD}.nodeSelector[nvidia.com/gpu.product]",
    "node_selector": f"{_POD}.nodeSelector",
    "tolerations": f"{_POD}.tolerations",
    "priority_class": f"{_POD}.priorityClassName",
    "network": f"{_POD}.hostNetwork",
    "grace_s": f"{_POD}.terminationGracePeriodSeconds",
    "time_limit_s": f"{_POD}.activeDeadlineSeconds",
    "completions": "spec.completions",
    "parallelism": "spec.parallelism",
    "completion_mode": "spec.completionMode",
    "backoff_limit": "spec.backoffLimit",
    "backoff_limit_per_index": "spec.backoffLimitPerIndex",
    "max_failures": "spec.maxFailedIndexes",
    "failure_rules": "spec.podFailurePolicy.rules",
    "active_deadline_s": "spec.activeDeadlineSeconds",
    "ttl_after_finished_s": "spec.ttlSecondsAfterFinished",
    "suspend": "spec.suspend",
    "annotations": "metadata.annotations",
}


def path_of(field: str) -> str | None:
    """Where a manifest says what the API calls so."""
    return _PATHS.get(field)


def job_fields(document: Mapping[str, Any]) -> dict[str, Any]:
    """Raises ManifestError."""
    job = manifest(document)
    spec, pod = job.spec, job.spec.template.spec
    container, indexed = _only(pod), spec.completion_mode == "Indexed"
    who = _who(job, container)
    itself = Itself(
        spec.template.metadata, job_name=who["name"], namespace=job.metadata.namespace, indexed=indexed
    )
    runs = container_fields(container, _CONTAINER, itself, indexed=indexed)
    fields = {**who, **_how_often(spec), **pod_fields(pod), **runs}
    if spec.suspend and not _kueue_queue(job):
        fields["suspend"] = True
    if annotations := {**who.get("annotations", {}), **runs.get("annotations", {})}:
        fields["annotations"] = annotations
    if "gpu_type" in fields and "gpu_request" not in fields:
        raise refused(_PATHS["gpu_type"], f"says which GPU: ask for some, with {_PATHS['gpu_request']}")
    return fields


def _only(pod: PodSpec) -> Container:
    if not pod.containers:
        raise refused(f"{_POD}.containers", "is empty: say what to run")
    return pod.containers[0]


def _who(job: Job, container: Container) -> dict[str, Any]:
    meta, pod = job.metadata, job.spec.template.metadata
    kept = {
        "metadata.labels": meta.labels,
        "metadata.annotations": meta.annotations,
        "spec.template.metadata.labels": pod.labels,
        "spec.template.metadata.annotations": pod.annotations,
    }
    annotations = {f"{path}[{key}]": value for path, texts in kept.items() for key, value in texts.items()}
    if pod.name:
        annotations["spec.template.metadata.name"] = pod.name
    fields: dict[str, Any] = {
        "name": meta.name or meta.generate_name.rstrip("-") or container.name,
        "dialect": DIALECT,
    }
    if annotations:
        fields["annotations"] = annotations
    return fields | ({} if meta.namespace is None else {"tenant_id": meta.namespace})


def _how_often(spec: JobSpec) -> dict[str, Any]:
    """How many tasks there are, and how often they are tried."""
    _check_indices(spec)
    counted = (
        ("completions", spec.completions, 1),
        ("parallelism", spec.parallelism, 0),
        ("backoff_limit", _backoff_limit(spec), 0),
        ("backoff_limit_per_index", spec.backoff_limit_per_index, 0),
        ("max_failures", spec.max_failed_indexes, 0),
        ("active_deadline_s", spec.active_deadline_seconds, 1),
        ("ttl_after_finished_s", spec.ttl_seconds_after_finished, 0),
    )
    fields: dict[str, Any] = {
        name: bounded(least, number, _PATHS[name]) for name, number, least in counted if number is not None
    }
    if spec.completions is not None:
        fields["completion_mode"] = spec.completion_mode
    if rules := failure_rules(spec):
        fields["failure_rules"] = rules
    return fields


def warnings(document: Mapping[str, Any]) -> list[str]:
    """What a manifest asks for that its user should know is done otherwise. Raises ManifestError."""
    job = manifest(document)
    if not job.spec.suspend:
        return []
    if queue := _kueue_queue(job):
        text = (
            f"is ignored because of {_KUEUE_QUEUE}={queue}: Kueue starts such a job when it admits it, and "
            "so does tgpu; submit with --hold to keep it from starting"
        )
    else:
        text = "is true: the job does not start until `tgpu resume`"
    return [f"{_PATHS['suspend']} {text}"]


def _kueue_queue(job: Job) -> str:
    """The queue of a Job that is managed by Kueue, which suspends such jobs itself until it admits them."""
    return job.metadata.labels.get(_KUEUE_QUEUE, "") or job.metadata.annotations.get(_KUEUE_QUEUE, "")


def _backoff_limit(spec: JobSpec) -> int | None:
    if spec.backoff_limit is None and spec.backoff_limit_per_index is None:
        return _BACKOFF_LIMIT
    return spec.backoff_limit


def _check_indices(spec: JobSpec) -> None:
    """What says something of each index needs indices."""
    indexed = spec.completion_mode == "Indexed"
    if indexed and spec.completions is None:
        raise refused(_PATHS["completions"], "is missing: with completionMode Indexed say how many there are")
    if spec.backoff_limit_per_index is not None and not indexed:
        raise refused(_PATHS["backoff_limit_per_index"], "needs spec.completionMode to be Indexed")
    if spec.max_failed_indexes is not None and spec.backoff_limit_per_index is None:
        raise refused(_PATHS["max_failures"], "needs spec.backoffLimitPerIndex")
