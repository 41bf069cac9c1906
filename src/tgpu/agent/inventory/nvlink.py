"""Which GPUs reach each other directly, by NVLink: read from each device once, for cables do not move."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SWITCH = "switch"
"""Behind a switch all are neighbours: every switch of a machine counts as one."""


@dataclass(frozen=True, slots=True)
class Links:
    """What one device says of itself: its PCI address, and what its active links lead to."""

    address: str
    peers: frozenset[str]
    """Addresses of other devices, and `SWITCH`."""


def links_of(nvml: Any, handle: Any) -> Links | None:  # noqa: ANN401  the library comes without types
    """None for a device without an address; one without links has no peers."""
    try:
        address = address_of(nvml.nvmlDeviceGetPciInfo(handle))
    except nvml.NVMLError:
        return None
    peers = (_peer(nvml, handle, link) for link in range(nvml.NVML_NVLINK_MAX_LINKS))
    return Links(address, frozenset(peer for peer in peers if peer is not None))


def islands(known: Mapping[int, Links]) -> dict[int, int]:
    """By index of a device that has a neighbour: the lowest index among all it can reach over neighbours."""
    at = {links.address: index for index, links in known.items()}
    lowest = {index: index for index in known}
    switched = [index for index, links in known.items() if SWITCH in links.peers]
    edges = [(switched[0], index) for index in switched[1:]]
    edges += [(index, at[peer]) for index, links in known.items() for peer in links.peers if peer in at]
    for one, other in edges:
        low, high = sorted((lowest[one], lowest[other]))
        if low != high:
            lowest = {index: low if island == high else island for index, island in lowest.items()}
    linked = {index for edge in edges for index in edge}
    return {index: island for index, island in lowest.items() if index in linked}


def address_of(pci: Any) -> str:  # noqa: ANN401  a structure of the library
    """As `/sys` writes it, `0000:1b:00.0`; NVML gives the domain more digits."""
    raw = pci.busId
    text = raw.decode() if isinstance(raw, bytes) else str(raw)
    return text.lower()[-12:]


def _peer(nvml: Any, handle: Any, link: int) -> str | None:  # noqa: ANN401  the library comes without types
    try:
        if nvml.nvmlDeviceGetNvLinkState(handle, link) != nvml.NVML_FEATURE_ENABLED:
            return None
    except nvml.NVMLError:
        return None  # no such link, or no NVLink at all
    try:
        if nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link) == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            return SWITCH
    except nvml.NVMLError:
        pass  # an older library does not tell: the address says whether it is a GPU
    try:
        return address_of(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link))
    except nvml.NVMLError:
        return None
