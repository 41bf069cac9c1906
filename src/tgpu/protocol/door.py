"""The first bytes on the one port of a server: they tell HTTP, agents and other servers apart."""

AGENT = b"\x00tgpu/agent\n"
PEER = b"\x00tgpu/peer\n\n"
PROVE = b"\x00tgpu/prove\n"
"""On a plain port: the server proves itself first (see `server_proof`), and TLS follows."""
assert len(AGENT) == len(PEER) == len(PROVE)
LENGTH = len(AGENT)


def is_ours(data: bytes) -> bool:
    """No HTTP request begins with a NUL."""
    return data[:1] == AGENT[:1]
