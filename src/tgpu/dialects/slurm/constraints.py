"""Which nodes will do: features (`-C`), names (`-w`, `-x`), as rules about labels."""

from __future__ import annotations

import re

from tgpu.dialects.slurm.hosts import expanded
from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Sequence

_FEATURE = re.compile(r"(!?)([A-Za-z0-9_./:-]+)(?:=([A-Za-z0-9_./:-]+))?")


def label_rules(name: str, text: str) -> list[str]:
    """`a100&nvlink`: a feature is a label that the node has, whatever its value; `zone=a` is that value."""
    if set(text) & set("|[]()*"):
        raise SlurmError(f"{name} can name features that a node has all of, such as a&b; got {text!r}")
    found = []
    for part in re.split(r"[&,]", text):
        match = _FEATURE.fullmatch(part.strip())
        if match is None:
            raise SlurmError(f"{name} must be features such as a100&nvlink; got {text!r}")
        sign, key, value = match.groups()
        if value is None:
            found.append(f"{sign}{key}")
        else:
            found.append(f"{key}{'!=' if sign else '='}{value}")
    return found


def node_rules(hosts: Sequence[str], excluded: str | None) -> list[str]:
    if not hosts and not excluded:
        return []
    from tgpu.domain.node_terms import NODE_LABEL  # noqa: PLC0415  only who names nodes

    rules = [f"{NODE_LABEL} in ({', '.join(hosts)})"] if hosts else []
    barred = expanded("--exclude", excluded) if excluded else []
    return rules + ([f"{NODE_LABEL} notin ({', '.join(barred)})"] if barred else [])
