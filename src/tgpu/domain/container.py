"""The container that a task runs in: its image, what is mounted into it, and how these are written."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from posixpath import normpath

from tgpu.domain.quantities import BadQuantityError

MAX_IMAGE = 500
MAX_MOUNTS = 64
MAX_PATH = 4095

_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_WORD = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = rf"(?:{_WORD}(?:\.{_WORD})*|\[[0-9a-fA-F:]+\])"
_IMAGE = re.compile(
    rf"(?P<name>(?:{_HOST}(?::[0-9]+)?/)?{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_NETWORK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
HOSTFILE = "/run/tgpu/hostfile"
"""Where a container of a gang finds the file that names the hosts of its gang."""
_NOT_OVER = ("/proc", "/sys", "/dev", "/run/tgpu")
_SHOWN = 80


class Pull(StrEnum):
    """Whether the image is fetched from its registry when the task starts."""

    ALWAYS = "always"
    MISSING = "missing"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Mount:
    """A path of the node, to be found in the container."""

    source: str
    target: str
    read_only: bool = False

    def __str__(self) -> str:
        return f"{self.source}:{self.target}{':ro' if self.read_only else ''}"


@dataclass(frozen=True, slots=True)
class Container:
    """What a task runs in, as it was asked for, and what its image's name meant at that moment."""

    image: str
    digest: str | None = None
    """What runs: `NAME@sha256:…` of the registry, or `sha256:…`, the id of an image that only some nodes
    have. None: whatever the name means when the task starts."""
    pull: Pull = Pull.MISSING
    mounts: tuple[Mount, ...] = ()
    shm_mib: int | None = None
    read_only: bool = False
    """Nothing can be written but mounts and /tmp."""
    network: str | None = None
    ignores_entrypoint: bool = False
    """The command is run as it is, and not given to the image's entry point."""
    cwd: str | None = None
    """Where in the container it runs; None: in the task's directory if that is mounted, else where the image
    says."""

    @property
    def runs(self) -> str:
        return self.digest or self.image


@dataclass(frozen=True, slots=True)
class ImageMeaning:
    """What the name of an image was found to mean. Neither a digest nor a refusal: nobody could tell."""

    digest: str | None = None
    hosts: tuple[str, ...] = ()
    """The only ones that have it; empty: every node can fetch it."""
    refusal: str = ""
    """Why there is no such image."""


def image(name: str, text: str) -> str:
    """By the grammar that all registries share; raises BadQuantityError."""
    if len(text) > MAX_IMAGE or _IMAGE.fullmatch(text) is None:
        raise BadQuantityError(
            f"{name} must be the name of an image, such as ubuntu:24.04 or ghcr.io/team/train@sha256:…, "
            f"in small letters; got {text[:_SHOWN]!r}"
        )
    return text


def pinned(asked: str, digest: str) -> str:
    """The same repository, by what a registry said that the name means."""
    return f"{repository(asked)}@{digest}"


def repository(asked: str) -> str:
    """Without tag and digest."""
    found = _IMAGE.fullmatch(asked)
    assert found is not None, "it was checked when it came"
    return found["name"]


def is_pinned(asked: str) -> bool:
    """Whether the name itself says by digest what it means."""
    found = _IMAGE.fullmatch(asked)
    return found is not None and found["digest"] is not None


def short_name(asked: str) -> str:
    """`ghcr.io/team/train:1.2` → `train`."""
    return repository(asked).rpartition("/")[2]


def network(name: str, text: str) -> str:
    """A network's own name: neither a container's nor a path."""
    if _NETWORK.fullmatch(text) is None:
        raise BadQuantityError(
            f"{name} must be none, bridge, host or the name of a network; got {text[:_SHOWN]!r}"
        )
    return text


def path_inside(name: str, path: str) -> str:
    """A directory of the container."""
    if path != "/":
        _check_path(name, path)
    return path


def mounts(name: str, texts: Sequence[str]) -> tuple[Mount, ...]:
    if len(texts) > MAX_MOUNTS:
        raise BadQuantityError(f"{name} may have at most {MAX_MOUNTS} entries; got {len(texts)}")
    found = tuple(mount(name, text) for text in texts)
    targets = [one.target for one in found]
    for target in targets:
        if targets.count(target) > 1:
            raise BadQuantityError(f"{name} mounts two things at {target}; keep one of them")
    return found


def mount(name: str, text: str) -> Mount:
    """`SOURCE:TARGET` or `SOURCE:TARGET:ro`."""
    source, _, rest = text.partition(":")
    target, colon, mode = rest.partition(":")
    if not target or (colon and mode not in ("ro", "rw")):
        raise BadQuantityError(
            f"{name} must be given as SOURCE:TARGET or SOURCE:TARGET:ro, such as /data/sets:/data:ro; "
            f"got {text[:_SHOWN]!r}"
        )
    for path in (source, target):
        _check_path(name, path)
    if any(target == over or target.startswith(f"{over}/") for over in _NOT_OVER):
        raise BadQuantityError(f"{name} cannot mount over {target}: choose another place, such as /data")
    return Mount(source, target, mode == "ro")


def _check_path(name: str, path: str) -> None:
    if not path.startswith("/") or not path.isprintable() or len(path.encode()) > MAX_PATH:
        raise BadQuantityError(f"{name} must name whole paths, such as /data/sets; got {path[:_SHOWN]!r}")
    if path == "/":
        raise BadQuantityError(f"{name} cannot mount / itself: name a directory below it")
    if normpath(path) != path or path.startswith("//"):
        raise BadQuantityError(
            f"{name} must name paths without `..`, `.` and doubled slashes; got {path[:_SHOWN]!r}"
        )
