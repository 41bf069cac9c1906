"""The settings about connections to the server."""

from dataclasses import dataclass

from tgpu.config.setting import setting


@dataclass(frozen=True, kw_only=True)  # without slots: `Settings` has several such parts
class NetworkSettings:
    """A part of `Settings`."""

    connections_per_user: int = setting(
        512,
        "How many connections one Unix user may hold open on the server's sockets, 16 to 100000; root and "
        "the user that runs the server have no limit.",
    )
    connections_per_address: int = setting(
        1024,
        "How many HTTP connections one address may hold open on the server's port, 16 to 100000. Raise it if "
        "a proxy or a gateway stands between the server and its users.",
    )
