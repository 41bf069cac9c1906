"""GPUs and other things that are counted by name: `gpu:a100:2`, `a100:2`, `licence:4`."""

from __future__ import annotations

from tgpu.dialects.slurm.refusal import SlurmError

_HUNDRED = 100
_MOST = 100_000
_MEANT_GPUS = frozenset({"gpus", "gpu"})
"""In any case: what people write for `gpu`, and would wait for as a resource of that name."""


class Gpus:
    """So many, of one model or of any."""

    __slots__ = ("count", "model")

    def __init__(self, count: float, model: str | None = None) -> None:
        self.count, self.model = count, model


def gpus(name: str, text: str) -> Gpus:
    """`2`, `a100:2` or `a100`."""
    if "," in text:
        raise SlurmError(f"{name} can name one model; got {text!r}")
    model, colon, count = text.strip().rpartition(":")
    if not colon and not text.strip().isdigit():
        model, count = text.strip(), "1"
    if model and not model[0].isalnum():
        raise SlurmError(f"{name} must say how many, such as gpu:2 or gpu:a100:2; got {text!r}")
    return Gpus(_count(name, count), model or None)


def gres(name: str, text: str) -> tuple[Gpus | None, dict[str, int]]:
    """The GPUs of one node, and everything else by its name."""
    found: Gpus | None = None
    others: dict[str, int] = {}
    for part in text.split(","):
        kind, *rest = part.strip().removeprefix("gres:").removeprefix("gres/").split(":")
        kind, equals, number = kind.partition("=")
        rest = [*rest, number] if equals else rest
        if kind in ("none", ""):
            continue
        if kind in ("gpu", "mps") and found is not None:
            raise SlurmError(f"{name} can ask for GPUs once, of one model; got {text!r}")
        if kind == "gpu":
            found = gpus(name, ":".join(rest) or "1")
        elif kind == "mps":
            found = _share(name, rest, text)
        elif kind == "shard":
            raise SlurmError(f"{name}: GPUs are not cut into shards: tgpu submit --gpus 0.25 shares one")
        elif kind.lower() in _MEANT_GPUS:
            meant = ":".join(["gpu", *rest])
            raise SlurmError(f"{name}: GPUs are called gpu: write {meant}; got {part.strip()!r}")
        else:
            others[kind] = others.get(kind, 0) + _count(name, rest[-1] if rest else "1")
    return found, others


def licences(name: str, text: str) -> dict[str, int]:
    """`matlab:2,ansys`."""
    found: dict[str, int] = {}
    for part in text.split(","):
        kind, _, count = part.strip().replace("=", ":").partition(":")
        if "@" in kind:
            raise SlurmError(f"{name}: there is no other server of licences; say {kind.split('@')[0]} alone")
        if kind:
            found[kind] = found.get(kind, 0) + _count(name, count or "1")
    return found


def per_task(name: str, text: str) -> tuple[int | None, Gpus | None]:
    """`cpu=4,gres/gpu:a100=1`: the CPUs and the GPUs of each task."""
    cpus, found = None, None
    for part in text.split(","):
        kind, _, count = part.strip().replace(":", "=", 1).partition("=")
        if kind == "cpu":
            cpus = _count(name, count)
        elif kind in ("gres/gpu", "gpu"):
            found = gpus(name, count.replace("=", ":"))
        else:
            raise SlurmError(f"{name} can be cpu=N and gres/gpu=N; got {part!r}")
    return cpus, found


def _share(name: str, rest: list[str], text: str) -> Gpus:
    """Of 100 shares each GPU has; more than that are whole ones."""
    count = _count(name, rest[-1] if rest else "1")
    if count > _HUNDRED and count % _HUNDRED:
        raise SlurmError(f"{name} can be a part of one GPU (up to mps:100), or whole ones; got {text!r}")
    return Gpus(count / _HUNDRED if count % _HUNDRED else count // _HUNDRED)


def _count(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text[:9]) > _MOST:
        raise SlurmError(f"{name} must say how many, such as gpu:2 or gpu:a100:2; got {text!r}")
    return int(text)
