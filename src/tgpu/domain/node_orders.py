"""What administrators order of nodes, and what became of it."""

from dataclasses import dataclass
from enum import StrEnum

from tgpu.domain.job import LabelRule


class NodeVerb(StrEnum):
    DRAIN = "drain"
    """Nothing new starts there; what runs there ends in peace."""
    UNDRAIN = "undrain"
    REMOVE = "remove"
    """Forgotten, with its key: it has to join anew."""


@dataclass(frozen=True, slots=True)
class NodeOrder:
    """For nodes by name, or for those whose labels satisfy every rule: for all of them or for none."""

    verb: NodeVerb
    by: str
    node_ids: tuple[str, ...] = ()
    rules: tuple[LabelRule, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NodesOrdered:
    """Which nodes it was carried out on; none of them if it was refused."""

    node_ids: tuple[str, ...] = ()
    refusal: str = ""
    unknown: bool = False
    """It was refused because there is no such node."""
