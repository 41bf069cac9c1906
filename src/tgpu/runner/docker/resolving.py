"""What the name of an image means now: by its registry's word, and by what this node has."""

from dataclasses import dataclass

from tgpu.domain.container import pinned, repository
from tgpu.runner.docker.credentials import Credentials
from tgpu.runner.docker.engine import Engine, EngineRefusedError, Json
from tgpu.runner.docker.pulling import cannot_be_reached, why_not


@dataclass(frozen=True, slots=True)
class ImageFound:
    pinned: str = ""
    """By a digest that every node can fetch."""
    here: str = ""
    """The id under which this node has it."""
    missing: str = ""
    """Why the registry says that there is none."""


async def resolve(engine: Engine, image: str, credentials: Credentials, *, local: bool) -> ImageFound:
    """`local`: the registry is not asked. Raises EngineAwayError."""
    inspected = await engine.image(image)
    here = "" if inspected is None else str(inspected.get("Id", ""))
    known = "" if inspected is None else _repo_digest(image, inspected)
    if local:
        return ImageFound(here=here, pinned=known)
    try:
        digest = await engine.digest(image, credentials.header(image))
    except EngineRefusedError as error:
        missing = "" if cannot_be_reached(error) else why_not(image, error, credentials)
        return ImageFound(here=here, pinned=known, missing="" if here else missing)
    return ImageFound(here=here, pinned=pinned(image, digest))


def _repo_digest(image: str, inspected: Json) -> str:
    """As the registry called it when it was fetched; empty if it never was."""
    name = repository(image)
    for known in inspected.get("RepoDigests") or ():
        if known.partition("@")[0] in (name, f"docker.io/library/{name}", f"docker.io/{name}"):
            return f"{name}@{known.partition('@')[2]}"
    return ""
