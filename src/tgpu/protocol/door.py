"""The first bytes on the one port of a server: they tell HTTP, agents and other servers apart."""

AGENT = b"\x00tgpu/agent\n"
PEER = b"\x00tgpu/peer\n\n"
assert len(AGENT) == len(PEER)
LENGTH = len(AGENT)


def is_ours(data: bytes) -> bool:
    """No HTTP request begins with a NUL."""
    return data[:1] == AGENT[:1]
