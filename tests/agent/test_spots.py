"""Where the tasks of a gang meet: a port that is kept free until it is needed, and a file of hosts."""

import socket
from pathlib import Path

import pytest

from tgpu.agent.gang_variables import gang_variables
from tgpu.agent.spots import NodeSpots
from tgpu.protocol.gangs import GangPlace, Go, Host, Spot

HOSTS = (Host(address="a", slots=2, name="n1"), Host(address="b", slots=1, name="n2"))


def test_a_port_is_kept_until_the_task_starts_and_can_be_had_then(tmp_path: Path) -> None:
    spots = NodeSpots(lambda: "n1.lan", tmp_path)
    spot = spots.take("1.0.1")
    assert spots.take("1.0.1") == spot, "asked again, it is the same"
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("", spot.port))
    spots.free("1.0.1")
    with socket.socket() as task:
        task.bind(("", spot.port))


def test_a_file_of_hosts_is_there_for_all_to_read_and_goes_with_its_task(tmp_path: Path) -> None:
    spots = NodeSpots(lambda: "n1", tmp_path / "gangs")
    path = Path(spots.hostfile("1.0.1", HOSTS))
    assert path.read_text(encoding="ascii") == "a slots=2\nb slots=1\n"
    assert path.stat().st_mode & 0o777 == 0o644
    other = Path(spots.hostfile("2.0.1", HOSTS))
    spots.forget("1.0.1")
    assert (path.exists(), other.exists()) == (False, True)
    spots.sweep(())
    assert not other.exists(), "what an agent left behind that died"


def test_where_no_file_can_be_written_a_task_does_without(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert NodeSpots(lambda: "n1", tmp_path / "file").hostfile("1.0.1", HOSTS) == ""


def test_a_task_finds_what_torch_and_mpi_look_for() -> None:
    place = GangPlace(rank=3, size=4, local_rank=1, local_size=2, node_rank=1, nodes=2)
    go = Go(attempt="1.3.1", master=Spot(address="a", port=7), hosts=HOSTS)
    assert gang_variables(place, go, "/run/hosts") == {
        "MASTER_ADDR": "a",
        "MASTER_PORT": "7",
        "WORLD_SIZE": "4",
        "RANK": "3",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "NODE_RANK": "1",
        "NNODES": "2",
        "TGPU_NODELIST": "a,b",
        "TGPU_NODENAMES": "n1,n2",
        "TGPU_HOSTFILE": "/run/hosts",
    }
    assert "TGPU_HOSTFILE" not in gang_variables(place, go, "")
