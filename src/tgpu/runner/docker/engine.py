"""One container engine, asked through its API: what it says becomes plain data, or one of three errors."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiodocker import Docker, DockerError
from aiodocker.execs import Exec
from aiodocker.stream import Stream
from yarl import URL

_CONNECT_S = 5.0
_ANSWER_S = 120.0
"""For what takes its time on a slow disk: to make a container, and to start it."""
_LONG = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
_CHUNK = 1 << 18
_NO_ANSWER = 900
"""What aiodocker calls it if nobody answers at all."""
_NOT_FOUND, _CONFLICT, _UNAVAILABLE = 404, 409, 503
_NAME_TAKEN = "name is already in use"
_UNIX = "unix://"
_NO_KEYS = "%FF,%FF,%FF"
"""Engines let go of who types certain keys, and cannot be told to have none: bytes that no keyboard sends."""

Json = Mapping[str, Any]


class EngineAwayError(Exception):
    """Nobody answers there now; what was asked may have been done or not."""


class EngineRefusedError(Exception):
    """It answered, and will not; in its own words."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status
        self.said = said.strip()


class NotThereError(EngineRefusedError):
    """There is no such container or image."""


@dataclass(frozen=True, slots=True)
class About:
    """What kind of engine it is."""

    kind: str
    """`docker` or `podman`"""
    version: str
    rootless: bool
    cgroups: str
    """`v1` or `v2`, and who keeps them: `v2, systemd`."""
    live_restore: bool
    runtimes: tuple[str, ...]
    cdi_folders: tuple[str, ...]
    """Where it looks for descriptions of devices (CDI); empty if it cannot."""


class _Client(Docker):
    """With what the library has no method for."""

    @contextlib.asynccontextmanager
    async def raw(self, path: str, params: Json) -> AsyncIterator[aiohttp.ClientResponse]:
        async with self._query(path, params=params, timeout=_LONG) as response:
            try:
                yield response
            finally:
                response.close()

    async def ask(self, path: str, headers: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401  JSON
        return await self._query_json(path, headers=headers)


class Engine:
    """Every method raises EngineAwayError if nobody answers, and EngineRefusedError if it is refused."""

    def __init__(self, url: str) -> None:
        timeout = aiohttp.ClientTimeout(total=_ANSWER_S, sock_connect=_CONNECT_S)
        # Every running container keeps a connection, so there may be any number of them.
        connector = aiohttp.UnixConnector(url.removeprefix(_UNIX), limit=0) if url.startswith(_UNIX) else None
        self.url = url
        self.is_local = url.startswith(_UNIX)
        """Whether what it calls a process is one of this machine."""
        self._connector = connector
        self._client = _Client(
            url=url if connector is None else "http://localhost", connector=connector, timeout=timeout
        )

    async def close(self) -> None:
        await self._client.close()
        if self._connector is not None:
            await self._connector.close()

    async def about(self) -> About:
        async with plainly():
            version, info = await self._client.version(), await self._client.system.info()
        parts = " ".join(str(part.get("Name", "")) for part in version.get("Components") or ()).lower()
        security = " ".join(info.get("SecurityOptions") or ())
        return About(
            kind="podman" if "podman" in parts else "docker",
            version=str(version.get("Version", "?")),
            rootless="rootless" in security,
            cgroups=f"v{info.get('CgroupVersion', '1')}, {info.get('CgroupDriver', '?')}",
            live_restore=bool(info.get("LiveRestoreEnabled")),
            runtimes=tuple(sorted(info.get("Runtimes") or {})),
            cdi_folders=tuple(info.get("CDISpecDirs") or ()),
        )

    async def ping(self) -> None:
        async with plainly(), asyncio.timeout(_CONNECT_S):
            await self._client.ask("_ping")

    async def create(self, name: str, body: Json) -> str:
        """Its id. EngineRefusedError with `is_taken` if the name is."""
        async with plainly():
            return (await self._client.containers.create(body, name=name)).id

    async def start(self, name: str) -> None:
        async with plainly():
            await self._client.containers.container(name).start()

    async def kill(self, name: str, signal: str) -> None:
        """Harmless if it does not run."""
        async with plainly():
            try:
                await self._client.containers.container(name).kill(signal=signal)
            except DockerError as error:
                if error.status not in (_NOT_FOUND, _CONFLICT):
                    raise

    async def wait(self, name: str) -> None:
        """Until it does not run."""
        async with plainly():
            await self._client.containers.container(name).wait(condition="not-running")

    async def inspect(self, name: str) -> Json | None:
        try:
            async with plainly():
                return await self._client.containers.container(name).show()
        except NotThereError:
            return None

    async def stats(self, name: str) -> Json:
        """What it uses, by the engine's own count; at once."""
        params = {"stream": "false", "one-shot": "true"}
        async with plainly(), self._client.raw(f"containers/{name}/stats", params) as response:
            said: Json = json.loads(await response.text())
            return said

    async def remove(self, name: str, *, force: bool = False) -> None:
        """With the volumes that were made for it alone; harmless if it is gone."""
        with contextlib.suppress(NotThereError):
            async with plainly():
                await self._client.containers.container(name).delete(force=force, v=True)

    async def labelled(self, labels: Mapping[str, str]) -> list[Json]:
        """All containers that carry these, running or not, as the list has them."""
        wanted = [f"{key}={value}" for key, value in labels.items()]
        async with plainly():
            found = await self._client.containers.list(all=True, filters=json.dumps({"label": wanted}))
        return [one._container for one in found]  # noqa: SLF001  its only way to the list's own words

    async def attach(self, name: str, *, terminal: bool = False) -> Stream:
        """What it prints from now on; before it starts, that is all of it. Of one that has a terminal this is
        the terminal, in both directions. The library would inspect it first, to learn what is known here."""
        query = f"stream=1&stdout=1&stderr=1&stdin={int(terminal)}&detachKeys={_NO_KEYS}"
        where = URL(f"containers/{name}/attach?{query}", encoded=True)

        async def setup() -> tuple[URL, bytes | None, bool]:
            return where, None, terminal

        async with plainly():
            stream = Stream(self._client, setup)
            await stream.__aenter__()
            return stream

    async def resize(self, name: str, rows: int, cols: int) -> None:
        async with plainly():
            await self._client.containers.container(name).resize(h=rows, w=cols)

    async def copy(
        self, name: str, since: str, *, follow: bool = True, stamped: bool = False
    ) -> AsyncIterator[bytes]:
        """What it has printed since then and, if that is followed, will print until it ends: as frames; of
        one that has a terminal, as it is. `stamped`: each message begins with its time."""
        params = {"follow": follow, "stdout": True, "stderr": True, "since": since, "timestamps": stamped}
        async with plainly(), self._client.raw(f"containers/{name}/logs", params) as response:
            async for data in response.content.iter_chunked(_CHUNK):
                yield data

    async def open_program(self, name: str, command: Sequence[str], *, tty: bool, env: Json) -> Exec:
        """Not yet started; as the container's own user."""
        async with plainly():
            return await self._client.containers.container(name).exec(
                list(command), stdin=True, tty=tty, environment=env or None
            )

    async def remembered(self) -> list[Json]:
        """What has happened lately in this life of the engine: it forgets all when it is started again."""
        params = {"since": 1, "until": int(time.time()) + 1}
        async with plainly(), self._client.raw("events", params) as response:
            return [json.loads(line) for line in (await response.text()).splitlines() if line.strip()]

    async def image(self, name: str) -> Json | None:
        try:
            async with plainly():
                return await self._client.images.inspect(name)
        except NotThereError:
            return None

    async def pull(self, name: str, auth: Json | None) -> AsyncIterator[Json]:
        """How far it is, again and again."""
        async with plainly():
            async for said in self._client.images.pull(name, auth=auth, stream=True, timeout=None):
                yield said

    async def digest(self, name: str, header: str | None) -> str:
        """What the registry says that this name means now."""
        headers = {} if header is None else {"X-Registry-Auth": header}
        async with plainly():
            found = await self._client.ask(f"distribution/{name}/json", headers)
        return str(found["Descriptor"]["digest"])


def is_taken(error: EngineRefusedError) -> bool:
    """Podman (4.3, at least) says so in words alone."""
    return error.status == _CONFLICT or _NAME_TAKEN in error.said


@contextlib.asynccontextmanager
async def plainly() -> AsyncIterator[None]:
    try:
        yield
    except DockerError as error:
        if error.status in (_NO_ANSWER, _UNAVAILABLE):
            raise EngineAwayError(error.message) from error
        kind = NotThereError if error.status == _NOT_FOUND else EngineRefusedError
        raise kind(error.status, error.message) from error
    except (TimeoutError, aiohttp.ClientError, ConnectionError) as error:
        raise EngineAwayError(str(error) or "it did not answer in time") from error
