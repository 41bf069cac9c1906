"""Containers of this node: the runner for them, as the settings say, and what the agent tells of them."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tgpu.config.settings import Settings
from tgpu.domain.node_terms import CONTAINERS_LABEL
from tgpu.domain.quantities import seconds
from tgpu.protocol.messages import ImageResolved, ResolveImage
from tgpu.runner.both import BothRunners
from tgpu.runner.docker.sockets import address
from tgpu.runner.port import LaunchSpec
from tgpu.runner.process import ProcessRunner
from tgpu.runner.remains import CONTAINERS

if TYPE_CHECKING:
    from tgpu.runner.docker.runner import DockerRunner


class NodeContainers:
    """The agent's `Containers`."""

    def __init__(self, settings: Settings, complete: Callable[[LaunchSpec], LaunchSpec]) -> None:
        """`complete` adds what only this node knows of a task's devices and limits."""
        self._settings = settings
        self._complete = complete
        self._runner: BothRunners | None = None

    def with_containers(self, processes: ProcessRunner, cluster_id: str) -> BothRunners:
        self._runner = BothRunners(processes, lambda: self._make(cluster_id))
        return self._runner

    def labels(self) -> Mapping[str, str]:
        engine = None if self._runner is None else self._runner.engine
        return {} if engine is None else {CONTAINERS_LABEL: engine}

    async def resolve(self, question: ResolveImage) -> ImageResolved:
        found = None
        if self._runner is not None:
            found = await self._runner.resolve(question.image, local=question.local)
        if found is None:
            return ImageResolved(request=question.request)
        return ImageResolved(
            request=question.request, pinned=found.pinned, here=found.here, missing=found.missing
        )

    def _find(self) -> str | None:
        return address(self._settings.docker_host, os.environ)

    def _make(self, cluster_id: str) -> "DockerRunner | None":
        """Nothing as long as there is neither an engine nor a record of what one ran."""
        folder = self._settings.agent_dir / cluster_id / CONTAINERS
        if self._find() is None and not folder.exists():
            return None
        from tgpu.runner.docker.body import House  # noqa: PLC0415  what talks to engines takes long to load
        from tgpu.runner.docker.runner import DockerRunner  # noqa: PLC0415

        settings = self._settings
        shared = tuple(path for path in settings.shared_paths if path != "/")
        return DockerRunner(
            folder,
            settings.logs_dir / cluster_id,
            cluster_id,
            find=self._find,
            house=House(
                mount_allow=(*settings.mount_allow, *shared),
                networks=settings.container_networks,
                gpu_injection=settings.gpu_injection,
            ),
            credentials=credentials_file(settings),
            keep_s=seconds("container_keep", settings.container_keep),
            complete=self._complete,
        )


def credentials_file(settings: Settings) -> Path:
    return Path(settings.registry_auth) if settings.registry_auth else Path.home() / ".docker/config.json"
