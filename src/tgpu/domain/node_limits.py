"""Limits of a node: what the token by which it joined allows it to be."""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tgpu.domain.label_rules import label
from tgpu.domain.node_terms import CONTAINERS_LABEL, HOST_LABEL, MAX_TERMS, NODE_LABEL
from tgpu.domain.quantities import BadQuantityError

EVERYONE = "*"
_OF_THE_AGENT = frozenset({HOST_LABEL, NODE_LABEL, CONTAINERS_LABEL})
"""Labels that agents set by themselves: a token limits those of its node only if it names them."""
_REMEDY = "or join again with a token that allows it"


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """None means no limit."""

    pool: str | None = None
    """The node is in this pool, whatever it says."""
    labels: tuple[str, ...] | None = None
    """Which it may have: each `key=value`, or `key` for any value."""
    serves: str | None = None
    """The one user whose jobs it may run."""
    address: str | None = None
    """The network from which it may connect, such as 10.0.0.0/24."""

    def allowed_labels(self, node_id: str, claimed: Mapping[str, str]) -> dict[str, str]:
        """Raises BeyondLimitsError. A node is always labelled with its own name and no other."""
        beyond = [f"{key}={value}" for key, value in claimed.items() if not self._allows(key, value)]
        if beyond:
            raise BeyondLimitsError(
                f"the join token of node {node_id} does not allow the label {', '.join(sorted(beyond)[:3])}: "
                f"start its agent without it, {_REMEDY}"
            )
        return {**claimed, NODE_LABEL: node_id} if NODE_LABEL in claimed else dict(claimed)

    def allowed_user(self, node_id: str, claimed: str) -> str:
        """Whose jobs the node runs. Raises BeyondLimitsError."""
        if self.serves is None or claimed == self.serves:
            return claimed
        if claimed == EVERYONE:
            return self.serves
        raise BeyondLimitsError(
            f"the join token of node {node_id} allows only jobs of {self.serves}, and its agent runs "
            f"those of {claimed}: start it as {self.serves} or as root, {_REMEDY}"
        )

    def check_address(self, node_id: str, address: str) -> None:
        """Raises BeyondLimitsError. An empty address is this machine's own, by a socket."""
        if self.address is not None and not is_within(address, self.address):
            raise BeyondLimitsError(
                f"the join token of node {node_id} allows only addresses in {self.address}, and it connects "
                f"from {address or 'a socket'}: {_REMEDY.removeprefix('or ')}"
            )

    def _allows(self, key: str, value: str) -> bool:
        if self.labels is None:
            return True
        if f"{key}={value}" in self.labels or key in self.labels:
            return True
        return key in _OF_THE_AGENT and not any(text.partition("=")[0] == key for text in self.labels)


class BeyondLimitsError(Exception):
    """A node claims more than its join token allows; the text says what and what to do."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a node that has joined may be one, and within which limits."""

    approved: bool = True
    limits: NodeLimits = NodeLimits()


def is_within(address: str, network: str) -> bool:
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = known.ipv4_mapped if isinstance(known, ipaddress.IPv6Address) else None
    return (mapped or known) in ipaddress.ip_network(network)


def network(name: str, text: str) -> str:
    """A network or one address, as it is kept. Raises BadQuantityError."""
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError:
        raise BadQuantityError(
            f"{name} must be a network or an address, such as 10.0.0.0/24 or 10.0.0.7; got {text[:80]!r}"
        ) from None


def label_limits(name: str, texts: Sequence[str]) -> tuple[str, ...]:
    """Each `key=value`, or `key`; sorted and each once. Raises BadQuantityError."""
    if len(texts) > MAX_TERMS:
        raise BadQuantityError(f"{name} may have at most {MAX_TERMS} entries; got {len(texts)}")
    for text in texts:
        key, equals, value = text.partition("=")
        label(name, key)
        if equals:
            label(name, value)
    return tuple(sorted(set(texts)))
