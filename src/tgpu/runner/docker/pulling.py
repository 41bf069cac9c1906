"""Fetches images: each once for all who wait for it, telling how far it is, and in words why it cannot be."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from tgpu.domain.container import Container, Pull
from tgpu.runner.docker.credentials import Credentials, registry_of
from tgpu.runner.docker.engine import Engine, EngineRefusedError, Json, NotThereError
from tgpu.runner.task import Refusal

PAUSES_S = (1.0, 4.0, 10.0)
"""Between tries, when the registry cannot be reached."""
NOTE_EVERY_S = 1.0
_MEGA = 1_000_000
_NO_RIGHT = ("unauthorized", "authentication required", "no basic auth", "incorrect username", "forbidden")
_NO_IMAGE = ("manifest unknown", "not found", "does not exist", "name unknown", "name invalid")
_NO_WAY = (
    "dial tcp", "no such host", "timeout", "connection refused", "connection reset", "eof", "tls", "i/o",
    "no route", "unreachable", "bad gateway", "service unavailable", "internal server error",
    "too many requests", "toomanyrequests", "deadline exceeded", "request canceled",
)  # fmt: skip

Note = Callable[[str], None]


def cannot_be_reached(error: EngineRefusedError) -> bool:
    """Whether the registry was not even asked, so that it is worth another try."""
    said = error.said.lower()
    return not _denied(said) and not _is_missing(error) and any(sign in said for sign in _NO_WAY)


def why_not(image: str, error: EngineRefusedError, credentials: Credentials) -> str:
    """In words for the user."""
    said, registry = error.said, registry_of(image)
    if _denied(said.lower()):
        return (
            f"{registry} does not let this node have the image {image}: there is no such image, or the "
            f"credentials in {credentials.path} are missing or wrong (docker login writes them): {said}"
        )
    if _is_missing(error):
        return f"there is no image {image} at {registry}: check its name and its tag: {said}"
    if cannot_be_reached(error):
        return f"the registry {registry} of the image {image} cannot be reached: {said}"
    return f"the image {image} cannot be fetched: {said}"


def _denied(said: str) -> bool:
    return any(sign in said for sign in _NO_RIGHT) or "denied" in said


def _is_missing(error: EngineRefusedError) -> bool:
    said = error.said.lower()
    return "no such host" not in said and (
        isinstance(error, NotThereError) or any(sign in said for sign in _NO_IMAGE)
    )


@dataclass(slots=True)
class _Fetching:
    work: asyncio.Task[None]
    notes: list[Note] = field(default_factory=list)


class Puller:
    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._fetching: dict[str, _Fetching] = {}

    async def provide(self, engine: Engine, container: Container, note: Note) -> None:
        """The image is here when this returns; raises Refusal, or what the engine raises."""
        name = container.runs
        here = await engine.image(name) is not None
        if here and container.pull is not Pull.ALWAYS:
            return
        if _is_id(name):
            if not here:
                raise Refusal(f"this node does not have the image {container.image} ({name}) any more")
            return
        if container.pull is Pull.NEVER:
            raise Refusal(f"this node does not have the image {name}, and the job says: --pull never")
        await self._fetch(engine, name, note)

    async def _fetch(self, engine: Engine, name: str, note: Note) -> None:
        fetching = self._fetching.get(name)
        if fetching is None:
            work = asyncio.get_running_loop().create_task(self._tries(engine, name))
            fetching = self._fetching[name] = _Fetching(work)
            work.add_done_callback(lambda done: self._fetched(name, done))
        fetching.notes.append(note)
        await asyncio.shield(fetching.work)

    def _fetched(self, name: str, work: asyncio.Task[None]) -> None:
        del self._fetching[name]
        if not work.cancelled():
            work.exception()  # whoever waited has it; if nobody did, it is nobody's concern

    async def _tries(self, engine: Engine, name: str) -> None:
        for pause_s in (*PAUSES_S, None):
            try:
                await self._try(engine, name)
            except EngineRefusedError as error:
                if pause_s is None or not cannot_be_reached(error):
                    raise Refusal(why_not(name, error, self._credentials)) from error
                self._tell(name, f"the registry cannot be reached, trying again: {error.said}")
                await asyncio.sleep(pause_s)
            else:
                return

    async def _try(self, engine: Engine, name: str) -> None:
        progress, told = Progress(), 0.0
        self._tell(name, "pulling its image")
        async for said in engine.pull(name, self._credentials.of(name)):
            progress.heard(said)
            now = asyncio.get_running_loop().time()
            if now - told >= NOTE_EVERY_S and progress.words:
                told = now
                self._tell(name, progress.words)

    def _tell(self, name: str, words: str) -> None:
        for note in self._fetching[name].notes:
            note(words)


class Progress:
    """How far a pull is, from what the engine says of each layer."""

    def __init__(self) -> None:
        self._layers: dict[str, tuple[int, int]] = {}
        self._unpacking = False

    def heard(self, said: Json) -> None:
        detail, status, layer = said.get("progressDetail") or {}, said.get("status"), str(said.get("id"))
        if status == "Downloading" and detail.get("total"):
            self._layers[layer] = (int(detail.get("current", 0)), int(detail["total"]))
        elif status in ("Download complete", "Extracting", "Pull complete") and layer in self._layers:
            total = self._layers[layer][1]
            self._layers[layer] = (total, total)
            self._unpacking = status == "Extracting"

    @property
    def words(self) -> str:
        done, total = (sum(layer[part] for layer in self._layers.values()) for part in (0, 1))
        if not total:
            return ""
        if self._unpacking and done == total:
            return f"unpacking its image, {total // _MEGA} MB"
        return f"pulling: {done // _MEGA} of {max(1, total // _MEGA)} MB"


def _is_id(name: str) -> bool:
    return name.startswith("sha256:") and len(name) == len("sha256:") + 64
