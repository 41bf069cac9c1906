"""`valueFrom.fieldRef`: what a task is told of itself. Some of it is known only on its node.

That part travels in the job's annotations, by the path at which it stood, and the node's agent reads it.
"""

import re
from collections.abc import Collection, Mapping

from tgpu.dialects.kubernetes.problems import refused
from tgpu.dialects.kubernetes.shape import PodMeta
from tgpu.domain.ids import AttemptId

_ENV = "spec.template.spec.containers[0].env"
_KEPT = re.compile(re.escape(_ENV) + r"\[(?P<name>[^=]+)\]\.valueFrom\.fieldRef")
_NAME, _NODE = "metadata.name", "spec.nodeName"
OF_INDEX = frozenset(
    f"metadata.{kind}['batch.kubernetes.io/job-completion-index']" for kind in ("annotations", "labels")
)
_NAMESPACE = "metadata.namespace"
_NOTED = re.compile(r"metadata\.(?P<kind>labels|annotations)\['(?P<key>[^']+)'\]")
_JOB_NAMES = ("batch.kubernetes.io/job-name", "job-name")


class Itself:
    """What a manifest says of its pods, by the paths that a fieldRef may have."""

    def __init__(self, pod: PodMeta, *, job_name: str, namespace: str | None, indexed: bool) -> None:
        self._noted = {
            "labels": dict.fromkeys(_JOB_NAMES, job_name) | pod.labels,
            "annotations": pod.annotations,
        }
        self._namespace = namespace
        self._indexed = indexed

    def value(self, wanted: str, path: str) -> str | None:
        """None: it is known only on the node. Raises ManifestError."""
        if wanted in (_NAME, _NODE):
            return None
        if wanted in OF_INDEX:
            if not self._indexed:
                raise refused(path, "names an index: that needs spec.completionMode to be Indexed")
            return None
        if wanted == _NAMESPACE:
            if self._namespace is None:
                raise refused(
                    path, f"asks for a namespace, and the manifest names none: say which at {_NAMESPACE}"
                )
            return self._namespace
        found = _NOTED.fullmatch(wanted)
        if found is None:
            raise refused(
                path,
                f"cannot be {wanted[:80]!r} here: {_NAME}, {_NAMESPACE}, {_NODE}, metadata.labels['NAME'] "
                "and metadata.annotations['NAME'] can be told",
            )
        noted = self._noted[found["kind"]]
        if found["key"] not in noted:
            raise refused(path, f"is not known: say spec.template.metadata.{found['kind']}[{found['key']}]")
        return noted[found["key"]]


def kept(later: Mapping[str, str]) -> dict[str, str]:
    """Annotations for variables that get their values on the node."""
    return {f"{_ENV}[{name}].valueFrom.fieldRef": path for name, path in later.items()}


def overridden(annotations: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """Without those of variables that get other values."""
    return {key: text for key, text in annotations.items() if key not in kept(dict.fromkeys(names, ""))}


def told(annotations: Mapping[str, str], attempt: AttemptId, job_name: str, node: str) -> dict[str, str]:
    """The values of those variables, in a task."""
    known = dict.fromkeys(OF_INDEX, str(attempt.task_index)) | {
        _NAME: f"{job_name}-{attempt.job_id}-{attempt.task_index}-{attempt.number}",
        _NODE: node,
    }
    wanted = {found["name"]: path for key, path in annotations.items() if (found := _KEPT.fullmatch(key))}
    return {name: known[path] for name, path in wanted.items() if path in known}
