"""What a container weighs on its node, and what is left of it when its agent is not there."""

import asyncio
from pathlib import Path

from tests.runner.docker.conftest import ContainerNode
from tgpu.agent import pressure
from tgpu.domain.lifecycle import Cause
from tgpu.runner.both import BothRunners
from tgpu.runner.limits import Limits
from tgpu.runner.process import ProcessRunner
from tgpu.runner.remains import CONTAINERS, Remains, remains

HUNGRY = "x=$(head -c 30000000 /dev/zero | tr '\\0' y); echo ready; while :; do sleep 1; done"


def test_how_heavily_it_weighs_is_known_to_a_new_agent_too(node: ContainerNode) -> None:
    limits = Limits(memory_mib=16, memory_limit_mib=256, oom_score_adj=700)
    attempt = node.shell(HUNGRY, limits=limits)
    node.until_printed(attempt, b"ready")
    for _ in range(2):
        (burden,) = node.wait_for(node.runner.burdens())
        assert (burden.attempt, burden.score, burden.reserved_mib) == (attempt, 700, 16)
        assert 28 <= burden.used_mib <= 200
        node.close()
        node.open()
        node.until(node.runner._lives[attempt].is_known.is_set)
    assert node.wait_for(node.runner.burdens()) != []


def test_the_lower_class_gives_way_whichever_way_it_runs(node: ContainerNode, tmp_path: Path) -> None:
    """A container of a low class goes before a process of a higher one, on one node."""
    processes = ProcessRunner(tmp_path / "p", tmp_path / "plogs", "both", cgroups=False)
    both = BothRunners(processes, node.made)
    node.close()
    node.runner = both
    node.wait_for(both.open(node.events.append))
    high = node.spec("sleep", "100", attempt="1.0.1", env={"PATH": "/bin:/usr/bin"}, container=None)
    both.launch(high)
    low = node.shell("echo ready; sleep 100", attempt="2.0.1", grace_s=1, limits=Limits(oom_score_adj=900))
    node.start_of("1.0.1")
    node.until_printed(low, b"ready")
    assert {burden.attempt for burden in node.wait_for(both.burdens())} == {"1.0.1", low}

    watching = node.loop.create_task(pressure.watch_for_ever([both], lambda: 10, 100))
    end = node.end_of(low)
    watching.cancel()
    node.wait_for(asyncio.gather(watching, return_exceptions=True))
    assert end.cause is Cause.MEMORY_PRESSURE
    both.stop("1.0.1", Cause.CANCELLED, "", at_once=True)
    assert node.end_of("1.0.1").cause is Cause.CANCELLED


def test_what_a_stopped_agent_left_of_containers_is_counted(tmp_path: Path, node: ContainerNode) -> None:
    node.close()
    agent_dir = tmp_path / "agent"
    node.records = agent_dir / "c1" / CONTAINERS
    node.open()
    assert remains(agent_dir) == Remains((), ())
    over = node.shell("true")
    node.end_of(over)
    runs = node.shell("echo ready; sleep 100")
    node.until_printed(runs, b"ready")
    node.close()
    assert remains(agent_dir) == Remains(running=(runs,), unsettled=(over, runs))
    node.open()
    node.runner.forget(over)
    node.runner.stop(runs, Cause.CANCELLED, "", at_once=True)
    node.end_of(runs)
    assert remains(agent_dir) == Remains(running=(), unsettled=(runs,))
    node.runner.forget(runs)
    assert remains(agent_dir) == Remains((), ())
