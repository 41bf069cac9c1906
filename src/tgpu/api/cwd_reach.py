"""On which hosts a job's directory is: everywhere below a shared path, else only where it was submitted.

One machine is one host. In a cluster a directory that is not shared would be missing on every other node, or
worse, be another one of the same name.
"""

import os
from dataclasses import replace
from pathlib import PurePosixPath

from tgpu.api.problems import unprocessable
from tgpu.config.settings import Settings
from tgpu.domain.job import Group, JobSpec
from tgpu.domain.label_rules import label
from tgpu.domain.node_terms import HOST_LABEL


class CwdReach:
    def __init__(self, settings: Settings, own_host: str = os.uname().nodename) -> None:
        self._cluster = bool(settings.store)
        self._shared = [PurePosixPath(path) for path in settings.shared_paths]
        self._own_host = own_host

    def only_host(self, cwd: str, said: str | None, *, local_caller: bool) -> str | None:
        """The one host that has this directory; None if all have it, or nobody knows who has."""
        if self._is_everywhere(cwd):
            return None
        if said is not None:
            return label("submit_host", said)
        return self._own_host if local_caller else None

    def remark(self, spec: JobSpec) -> str:
        """What a caller should know whose job has no node because of its directory."""
        group = spec.groups[0]
        host = dict(group.request.node_selector).get(HOST_LABEL)
        if host is None or self._is_everywhere(group.cwd) or not needs_its_directory(spec, group):
            return ""
        return (
            f" (its directory {group.cwd} is only on {host}, where it was submitted: use one below a path "
            "that all nodes share, which an administrator names in shared_paths)"
        )

    def _is_everywhere(self, cwd: str) -> bool:
        return not self._cluster or any(PurePosixPath(cwd).is_relative_to(path) for path in self._shared)

    def can_be_checked(self, host: str | None) -> bool:
        """Whether this server would see the directory if it is there."""
        return not self._cluster or host == self._own_host


def needs_its_directory(spec: JobSpec, group: Group) -> bool:
    """Not a container that sees nothing of its node; nor one whose files come with it."""
    sees_nothing = group.container is not None and group.cwd == "/"
    return not sees_nothing and (spec.snapshot is None or spec.files is not None)


def kept_on(spec: JobSpec, group_index: int, host: str) -> JobSpec:
    """The same job, that group of it on nodes of that host alone. Refused if it names another."""
    group = spec.groups[group_index]
    asked = dict(group.request.node_selector)
    if asked.get(HOST_LABEL, host) != host:
        raise unprocessable(
            "node_selector",
            f"node_selector wants the host {asked[HOST_LABEL]}, and its directory {group.cwd} is only on "
            f"{host}, where it was submitted: use one below a path that all nodes share, which an "
            "administrator names in shared_paths",
        )
    selector = tuple(sorted({**asked, HOST_LABEL: host}.items()))
    kept = replace(group, request=replace(group.request, node_selector=selector))
    return replace(spec, groups=(*spec.groups[:group_index], kept, *spec.groups[group_index + 1 :]))
