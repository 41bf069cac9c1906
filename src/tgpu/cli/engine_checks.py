"""What `tgpu doctor` finds out about this machine's container engine."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from tgpu.cli.findings import OK, WARN, Finding
from tgpu.config import settings as config

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tgpu.config.settings import Settings
    from tgpu.runner.docker.engine import About

_PATIENCE_S = 5.0
_NAME = "containers"


def of_engine() -> Iterator[Finding]:
    """Nothing where the settings cannot be read, which is said elsewhere."""
    from tgpu.runner.docker.sockets import OFF, address  # noqa: PLC0415  only doctor needs it

    try:
        settings = config.load(os.environ)
    except config.SettingsError:
        return
    if settings.docker_host == OFF:
        yield Finding(_NAME, OK, "off, by the setting docker_host: jobs with an image run elsewhere")
        return
    url = address(settings.docker_host, os.environ)
    if url is None:
        yield Finding(_NAME, OK, "no engine found: jobs with an image do not run here")
        return
    try:
        about = asyncio.run(_about(url))
    except _errors() as error:
        advice = "start it, or name its socket in docker_host; `off` if there is to be none"
        yield Finding(_NAME, WARN, f"the engine at {url} does not answer: {error}", advice)
        return
    yield _finding(about, settings)


def _finding(about: About, settings: Settings) -> Finding:
    from tgpu.runner.docker import gpus  # noqa: PLC0415  only where there is an engine

    way = gpus.way(settings.gpu_injection, about)
    rootless = ", rootless" if about.rootless else ""
    stays = "containers outlive it" if about.live_restore else "its containers end with it (no live-restore)"
    given = f"GPUs by {way or 'nothing'}"
    text = f"{about.kind} {about.version}, cgroups {about.cgroups}{rootless}; {stays}; {given}"
    if way is None and _has_gpus():
        advice = "for jobs with an image and GPUs: install NVIDIA's container toolkit, then look again"
        return Finding(_NAME, WARN, text, advice)
    return Finding(_NAME, OK, text)


def _has_gpus() -> bool:
    return os.path.exists("/dev/nvidiactl")  # noqa: PTH110  a plain look


async def _about(url: str) -> About:
    from tgpu.runner.docker.engine import Engine  # noqa: PLC0415  it takes long to load

    engine = Engine(url)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await engine.about()
    finally:
        await engine.close()


def _errors() -> tuple[type[Exception], ...]:
    from tgpu.runner.docker.engine import EngineAwayError, EngineRefusedError  # noqa: PLC0415  as above

    return (EngineAwayError, EngineRefusedError, TimeoutError)
