"""A manifest in few words: the smallest that is taken, and what a story changes in it."""

from copy import deepcopy
from typing import Any

import yaml

from tgpu.dialects.kubernetes import ManifestError, job_fields

SMALLEST = """
apiVersion: batch/v1
kind: Job
metadata:
  name: pi
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: tools:1
"""
_SHORT = {"c": "spec.template.spec.containers.0", "p": "spec.template.spec"}


def manifest(**changes: object) -> dict[str, Any]:
    """`spec__completions=3`, with `c__` for the container and `p__` for its pod; None is null."""
    made: dict[str, Any] = yaml.safe_load(SMALLEST)
    for name, value in changes.items():
        place, _, rest = name.partition("__")
        put(made, ".".join([_SHORT.get(place, place), *rest.split("__")]).rstrip("."), value)
    return made


def put(made: Any, path: str, value: object) -> None:
    *before, last = path.split(".")
    for step in before:
        made = made[int(step)] if isinstance(made, list) else made.setdefault(step, {})
    made[int(last) if isinstance(made, list) else last] = deepcopy(value)


def fields(**changes: object) -> dict[str, Any]:
    """What the API is told, but for what all manifests have."""
    found = job_fields(manifest(**changes))
    usual = {
        "name": "pi",
        "dialect": "kubernetes",
        "backoff_limit": 6,
        "image": "tools:1",
        "cwd": "/",
        "env": {},
    }
    return {name: value for name, value in found.items() if name not in usual or usual[name] != value}


def refusal(**changes: object) -> str:
    try:
        return f"taken: {job_fields(manifest(**changes))}"
    except ManifestError as error:
        return str(error)
