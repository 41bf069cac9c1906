"""What a look at a container tells, by its cgroup and by the engine's own count."""

import time
from collections.abc import Callable

from tests.agent.test_gpu_watch import launch
from tests.docker_engine import IMAGE
from tests.runner.docker.conftest import ContainerNode
from tgpu.agent.inventory import Owners
from tgpu.agent.use.uses import Uses
from tgpu.domain.container import Container, Mount
from tgpu.protocol.messages import Launch
from tgpu.protocol.use import unpacked
from tgpu.runner.docker.look import look_in_words, traffic
from tgpu.runner.look import Look
from tgpu.runner.port import AttemptEnded
from tgpu.runner.roots import Roots

MIB = 1 << 20
BUSY = "dd if=/dev/zero of=/data/big bs=1M count=20 conv=fsync 2>/dev/null; echo ready; while :; do :; done"


def look_until(node: ContainerNode, attempt: str, is_so: Callable[[Look], bool]) -> Look:
    deadline = time.monotonic() + 40
    while True:
        seen = node.wait_for(node.runner.look([attempt, "99.0.1"])).get(attempt)
        if seen is not None and is_so(seen):
            return seen
        assert time.monotonic() < deadline, seen
        time.sleep(0.05)


def test_a_containers_use_is_told_while_it_runs(node: ContainerNode) -> None:
    attempt = node.shell(BUSY, network="none", time_limit_s=60)
    node.until_printed(attempt, b"ready\n")
    assert node.runner.first_processes() == {attempt: 0}, "nobody has looked yet"
    seen = look_until(node, attempt, lambda seen: seen.cpu_us >= 300_000)
    assert node.runner.first_processes() == {attempt: node.inspect(attempt)["State"]["Pid"]}
    assert 0 < seen.memory_bytes < 50 * MIB
    assert seen.disk_written_bytes >= 20 * MIB
    assert (seen.net_received_bytes, seen.net_sent_bytes) == (0, 0)
    later = look_until(node, attempt, lambda later: later.cpu_us >= seen.cpu_us + 100_000)
    assert later.disk_written_bytes == seen.disk_written_bytes

    counted = look_in_words(node.engine.ask("GET", f"/containers/{node.name_of(attempt)}/stats?stream=0"))
    assert counted is not None
    assert counted.cpu_us >= later.cpu_us
    assert 0 < counted.memory_bytes < 50 * MIB
    node.runner.stop(attempt, "cancelled", "", at_once=True)
    node.end_of(attempt)
    assert node.wait_for(node.runner.look([attempt])) == {}
    assert node.runner.first_processes() == {}


def test_a_containers_process_is_known_to_be_its_tasks(node: ContainerNode) -> None:
    attempt = node.shell("echo ready; sleep 60", network="none")
    node.until_printed(attempt, b"ready\n")
    owners = Owners(node.cluster, lambda: Roots({}, node.runner.first_processes()))
    first = node.inspect(attempt)["State"]["Pid"]
    assert owners.attempt_of(first) == attempt
    node.wait_for(node.runner.look([attempt]))
    assert owners.attempt_of(first) == attempt
    node.runner.stop(attempt, "cancelled", "", at_once=True)
    node.end_of(attempt)


def test_what_a_container_used_is_told_at_its_end(node: ContainerNode) -> None:
    uses, loop = Uses(1.0), node.loop
    uses.open(node.home / "logs", node.runner)
    attempt = "50.0.1"
    order = {"attempt": attempt, "time_limit_s": 60}
    uses.launched(a_launch(attempt), loop.time())
    node.shell("while [ ! -e /data/enough ]; do :; done", mounts=(Mount(str(node.home), "/data"),), **order)
    uses.started(node.start_of(attempt), loop.time())
    looking = loop.create_task(uses.go_on())
    node.until(lambda: (file := unpacked(uses.read(attempt))) is not None and file.cpu_us >= 300_000, 40)
    (node.home / "enough").touch()
    end = uses.ended(AttemptEnded(attempt, node.end_of(attempt))).exit
    looking.cancel()
    assert (end.exit_code, end.cpu_ms >= 300, end.peak_memory_mib >= 1) == (0, True, True)
    assert end.use is not None
    assert end.use.cpu_peak_milli >= end.use.cpu_mean_milli > 0


def a_launch(attempt: str) -> Launch:
    made = launch(attempt)
    fields = {name: getattr(made, name) for name in made.__struct_fields__}
    return Launch(**fields | {"container": Container(IMAGE)})


def test_one_that_shares_the_nodes_network_tells_nothing_of_it(node: ContainerNode) -> None:
    attempt = node.shell("echo ready; sleep 60", network="host")
    node.until_printed(attempt, b"ready\n")
    assert look_until(node, attempt, lambda _: True).net_sent_bytes is None
    node.runner.stop(attempt, "cancelled", "", at_once=True)
    node.end_of(attempt)


def test_what_goes_to_itself_is_no_traffic() -> None:
    head = "Inter-|   Receive\n face |bytes    packets errs drop fifo frame compressed multicast|bytes ...\n"
    lines = "    lo: 900 1 0 0 0 0 0 0 900 1 0 0 0 0 0 0\n  eth0: 70 1 0 0 0 0 0 0 8 1 0 0 0 0 0 0\n"
    assert traffic(head + lines + "  eth1:30 1 0 0 0 0 0 0 2 1 0 0 0 0 0 0\n") == (100, 10)


def test_the_engines_count_is_read_in_both_versions() -> None:
    blocks = [{"op": "Read", "value": 5}, {"op": "write", "value": 6}, {"op": "Write", "value": 1}]
    stats = {
        "cpu_stats": {
            "cpu_usage": {"total_usage": 5_000_000},
            "throttling_data": {"periods": 4, "throttled_periods": 1},
        },
        "memory_stats": {"usage": 100, "stats": {"inactive_file": 30, "file": 40}},
        "blkio_stats": {"io_service_bytes_recursive": blocks},
        "networks": {"eth0": {"rx_bytes": 1, "tx_bytes": 2}, "eth1": {"rx_bytes": 10, "tx_bytes": 20}},
    }
    assert look_in_words(stats) == Look(
        cpu_us=5000, periods=4, throttled=1, memory_bytes=70, cache_bytes=40, disk_read_bytes=5,
        disk_written_bytes=7, net_received_bytes=11, net_sent_bytes=22,
    )  # fmt: skip
    legacy = {
        "cpu_stats": stats["cpu_stats"],
        "memory_stats": {"usage": 9, "stats": {"total_inactive_file": 4}},
    }
    assert look_in_words(legacy) == Look(cpu_us=5000, periods=4, throttled=1, memory_bytes=5)
    assert look_in_words({"cpu_stats": {"cpu_usage": {"total_usage": 0}}, "memory_stats": {}}) is None
