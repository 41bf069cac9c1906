"""The settings about jobs of several tasks that start together."""

from dataclasses import dataclass

from tgpu.config.setting import setting


@dataclass(frozen=True, kw_only=True)
class GangSettings:
    """A part of `Settings`."""

    gang_start_s: float = setting(
        300.0,
        "All tasks of a gang must have started so many seconds after they were given their nodes; else it is "
        "stopped, and starts anew. A setting of the servers.",
    )
    node_address: str = setting(
        "",
        "Where the tasks of a gang reach this node: a name or an address. Empty: the address by which it "
        "talks to the servers, or the host name.",
    )
