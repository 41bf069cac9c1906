"""Processes of one user in containers: one limit for all of them, as for tasks without a container."""

from tests.runner.docker.conftest import ContainerNode
from tgpu.runner.limits import Limits

USER = "games"
"""A user who has no other processes."""
CROWD = "sleep 300 & sleep 300 & sleep 300 & sleep 300 & echo ready; wait"
"""With its shell and the engine's small init, six processes."""
FORK = "sleep 0 & echo forked"


def test_containers_of_one_user_share_one_limit(node: ContainerNode) -> None:
    crowd = node.shell(CROWD, limits=Limits(user_pids=6), user=USER)
    node.until(lambda: node.output(crowd) == b"ready\n")
    eighth = Limits(user_pids=8)
    attempt = node.shell(FORK, limits=eighth, user=USER)
    assert node.end_of(attempt).exit_code != 0
    assert b"can't fork" in node.output(attempt, "stderr"), "it would be the ninth process of this user"
    assert node.run(FORK, limits=Limits(user_pids=9), user=USER)[1] == "forked\n"
    assert node.run(FORK, limits=eighth, user="root")[1] == "forked\n", "root is not limited"
