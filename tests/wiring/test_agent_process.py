"""What an agent says of its node comes from the settings."""

import socket
from pathlib import Path
from random import Random

import pytest

from tgpu.config.settings import SettingsError, load
from tgpu.wiring import home
from tgpu.wiring.agent_process import identity_of, node_name
from tgpu.wiring.membership import membership


def test_a_node_says_its_pool_its_labels_and_its_taints(tmp_path: Path) -> None:
    (tmp_path / "tgpu.toml").write_text(
        'node_name = "n7"\nnode_pool = "training"\nnode_labels = ["zone=a", "ssd=yes"]\n'
        'node_taints = ["spot", "team=vision:NoSchedule"]\n'
    )
    settings = load({"TGPU_HOME": str(tmp_path)})
    home.prepare(settings)
    identity = identity_of(settings, membership(settings, None, node_name(settings), Random(0)))
    assert (identity.node_id, identity.pool) == ("n7", "training")
    own = {"tgpu/host": socket.gethostname(), "tgpu/node": "n7"}
    assert identity.labels == {"zone": "a", "ssd": "yes", **own}
    assert identity.taints == ("spot", "team=vision")


def test_a_node_is_not_called_like_an_order(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="a node cannot be called drain, which is an order"):
        node_name(load({"TGPU_HOME": str(tmp_path), "TGPU_NODE_NAME": "drain"}))


@pytest.mark.parametrize("name", ["bad name", "-n1", "a" * 254])
def test_a_node_s_name_is_refused_by_its_flag(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match=r"--name \(node_name\) must be 1 to 253 letters"):
        node_name(load({"TGPU_HOME": str(tmp_path), "TGPU_NODE_NAME": name}))


def test_a_node_that_cannot_be_meant_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="node_taints must be given as key or key=value"):
        load({"TGPU_HOME": str(tmp_path), "TGPU_NODE_TAINTS": "a b"})
