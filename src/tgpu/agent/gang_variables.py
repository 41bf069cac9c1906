"""What a task of a gang finds in its environment, as torch, MPI and others look for it."""

from collections.abc import Mapping

from tgpu.protocol.gangs import GangPlace, Go


def gang_variables(place: GangPlace, go: Go, hostfile: str) -> Mapping[str, str]:
    """`hostfile`: empty if there is none."""
    found = {
        "MASTER_ADDR": go.master.address,
        "MASTER_PORT": str(go.master.port),
        "WORLD_SIZE": str(place.size),
        "RANK": str(place.rank),
        "LOCAL_RANK": str(place.local_rank),
        "LOCAL_WORLD_SIZE": str(place.local_size),
        "NODE_RANK": str(place.node_rank),
        "NNODES": str(place.nodes),
        "TGPU_NODELIST": ",".join(host.address for host in go.hosts),
        "TGPU_NODENAMES": ",".join(host.name for host in go.hosts),
    }
    return found | {"TGPU_HOSTFILE": hostfile} if hostfile else found
