"""What nodes have by name, and what tasks say of it: labels, taints and tolerations, generic resources."""

import re
from collections.abc import Mapping, Sequence, Sized

from tgpu.domain.label_rules import label
from tgpu.domain.quantities import MAX_GENERIC, BadQuantityError, whole

MAX_TERMS = 64
EVERY_TAINT = "*"
HOST_LABEL = "tgpu/host"
"""Every node has it: the name of the machine it is on."""
NODE_LABEL = "tgpu/node"
"""Every node has it: its own name, for jobs that name nodes."""
CONTAINERS_LABEL = "tgpu.dev/containers"
"""A node has it while its agent reaches a container engine: which one, `docker` or `podman`."""

_TAINT = re.compile(r"[^\s,=*]{1,253}(=[^\s,=*]{1,253})?")
_EFFECT = "NoSchedule"
_OTHER_EFFECTS = frozenset({"NoExecute", "PreferNoSchedule"})
_GENERIC_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")
_NOT_GENERIC = frozenset({"cpu", "cpus", "memory", "disk", "gpu", "gpus"})


def taints(name: str, texts: Sequence[str]) -> tuple[str, ...]:
    _check_few(name, texts)
    return tuple(_taint(name, text) for text in texts)


def tolerations(name: str, texts: Sequence[str]) -> tuple[str, ...]:
    """Sorted and each once: tasks that tolerate the same are of one kind."""
    _check_few(name, texts)
    return tuple(sorted({text if text == EVERY_TAINT else _taint(name, text, ", or *") for text in texts}))


def generic(name: str, amounts: Mapping[str, object]) -> tuple[tuple[str, int], ...]:
    """Sorted by name: tasks that ask for the same are of one kind."""
    _check_few(name, amounts)
    return tuple(
        sorted((_generic_name(name, key), _amount(name, key, value)) for key, value in amounts.items())
    )


def generic_pairs(name: str, texts: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Of `name=N` each, as settings have it."""
    return generic(name, _pairs(name, texts, "licence=4"))


def labels(name: str, texts: Sequence[str]) -> dict[str, str]:
    """Of `key=value` each, as settings have it."""
    pairs = _pairs(name, texts, "zone=a")
    return {label(name, key): label(name, value) for key, value in pairs.items()}


def _pairs(name: str, texts: Sequence[str], example: str) -> dict[str, str]:
    _check_few(name, texts)
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise BadQuantityError(f"{name} must be given as {example}; got {text[:80]!r}")
        if key in pairs:
            raise BadQuantityError(f"{name} says {key[:80]!r} twice; keep one of them")
        pairs[key] = value
    return pairs


def _check_few(name: str, entries: Sized) -> None:
    if len(entries) > MAX_TERMS:
        raise BadQuantityError(f"{name} may have at most {MAX_TERMS} entries; got {len(entries)}")


def _taint(name: str, text: str, more: str = "") -> str:
    text = _without_effect(name, text)
    if not _TAINT.fullmatch(text) or not text.isprintable():
        raise BadQuantityError(
            f"{name} must be given as key or key=value{more}, such as spot or team=vision; got {text[:80]!r}"
        )
    return text


def _without_effect(name: str, text: str) -> str:
    """`key=value:NoSchedule`, as Kubernetes writes it, is `key=value`: taints have no other effect here."""
    taint, _, effect = text.rpartition(":")
    if effect in _OTHER_EFFECTS:
        raise BadQuantityError(
            f"{name} must have the effect {_EFFECT}, which need not be written: {effect} is not supported; "
            f"got {text[:80]!r}"
        )
    return taint if taint and effect == _EFFECT else text


def _generic_name(name: str, key: str) -> str:
    if key.lower() in _NOT_GENERIC:
        raise BadQuantityError(f"{name} must not name {key!r}, which has a word of its own")
    if not _GENERIC_NAME.fullmatch(key):
        raise BadQuantityError(
            f"{name} must have names of up to 63 letters, digits and ._/- such as licence; got {key[:80]!r}"
        )
    return key


def _amount(name: str, key: str, value: object) -> int:
    said = f"{name} {key[:80]}"
    amount = whole(said, value, MAX_GENERIC)
    if amount == 0:
        raise BadQuantityError(f"{said} must be at least 1; got {value}")
    return amount
