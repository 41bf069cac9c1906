"""What a look at a running task tells: real processes with a known load, with cgroups and without."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runner.conftest import Machine
from tgpu.runner.limits import Limits
from tgpu.runner.look import Look
from tgpu.runner.look_groups import look_at_group

MIB = 1 << 20
BUSY = "while :; do :; done"
HOLDER = "python3 -c 'import time; x = bytearray(60 << 20); print(\"held\", flush=True); time.sleep(300)'"
WRITER = "dd if=/dev/zero of=big bs=1M count=20 conv=fsync 2>/dev/null; echo written; exec sleep 300"


@pytest.fixture(params=["by cgroups", "by processes"])
def either(request: pytest.FixtureRequest) -> Machine:
    found: Machine = request.getfixturevalue("grouped" if request.param == "by cgroups" else "machine")
    return found


def running(machine: Machine, script: str, said: bytes = b"", **changes: object) -> str:
    """An attempt that has started, and printed that; nobody has to wait for its end."""
    attempt = machine.shell(script, time_limit_s=60, **changes)
    machine.start_of(attempt)
    machine.until(lambda: machine.output(attempt) == said)
    return attempt


def look_until(machine: Machine, attempt: str, is_so: Callable[[Look], bool]) -> Look:
    deadline = time.monotonic() + 40
    while not is_so(seen := look(machine, attempt)):
        assert time.monotonic() < deadline, seen
        time.sleep(0.02)
    return seen


def look(machine: Machine, attempt: str) -> Look:
    found = machine.loop.run_until_complete(machine.runner.look([attempt, "99.0.1"]))
    assert list(found) == [attempt]
    return found[attempt]


def stop(machine: Machine, attempt: str) -> None:
    machine.runner.stop(attempt, "cancelled", "", at_once=True)
    machine.end_of(attempt)


def test_cpu_time_grows_as_it_is_spent(either: Machine) -> None:
    attempt = running(either, BUSY)
    began = time.monotonic()
    before = look(either, attempt).cpu_us
    after = look_until(either, attempt, lambda seen: seen.cpu_us >= before + 300_000).cpu_us
    assert after <= before + (time.monotonic() - began + 0.1) * 1_000_000
    stop(either, attempt)
    assert either.loop.run_until_complete(either.runner.look([attempt])) == {}


def test_children_that_are_gone_count_for_whoever_waited(either: Machine) -> None:
    script = "python3 -c 'import time\nwhile time.process_time() < 0.3: pass'; echo done; sleep 300"
    attempt = running(either, script, b"done\n")
    assert look(either, attempt).cpu_us >= 250_000
    stop(either, attempt)


def test_memory_is_what_all_its_processes_hold(either: Machine) -> None:
    attempt = running(either, f"{HOLDER} & {HOLDER} & wait", b"held\nheld\n")
    assert 120 * MIB <= look(either, attempt).memory_bytes <= 200 * MIB
    stop(either, attempt)


def test_what_it_wrote_is_told_while_it_runs_and_at_its_end(either: Machine) -> None:
    attempt = running(either, WRITER, b"written\n", cwd=str(either.home))
    seen = look(either, attempt)
    assert 20 * MIB <= seen.disk_written_bytes <= 22 * MIB
    assert seen.net_sent_bytes is None
    either.runner.stop(attempt, "cancelled", "", at_once=True)
    use = either.end_of(attempt).use
    assert use is not None
    assert 20 * MIB <= use.disk_written_bytes <= 22 * MIB


def test_files_in_memory_are_told_apart_from_what_it_needs(grouped: Machine) -> None:
    limits = Limits(memory_limit_mib=256)
    attempt = running(grouped, WRITER, b"written\n", cwd=str(grouped.home), limits=limits)
    seen = look(grouped, attempt)
    assert seen.cache_bytes >= 19 * MIB
    assert seen.memory_bytes < 15 * MIB
    stop(grouped, attempt)


def test_whoever_is_held_back_by_a_limit_of_cpus_shows_it(grouped: Machine) -> None:
    attempt = running(grouped, BUSY, limits=Limits(cpu_milli=100, cpu_limit_milli=100))
    seen = look_until(grouped, attempt, lambda seen: seen.throttled > 2)
    assert seen.periods >= seen.throttled
    stop(grouped, attempt)


def test_one_that_is_over_at_once_has_nothing_to_tell(machine: Machine) -> None:
    assert machine.end_of(machine.launch("true")).use is None


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def test_a_group_of_version_2_tells_all(tmp_path: Path) -> None:
    folder = written(
        tmp_path,
        {
            "cpu.stat": "usage_usec 5000000\nuser_usec 4000000\nnr_periods 40\nnr_throttled 10\n",
            "memory.current": f"{100 * MIB}\n",
            "memory.stat": f"anon {50 * MIB}\nfile {45 * MIB}\ninactive_file {30 * MIB}\n",
            "memory.swap.current": "4096\n",
            "io.stat": "8:0 rbytes=100 wbytes=7 rios=1 wios=1 dbytes=0\n8:16 rbytes=11 wbytes=3 rios=1\n",
        },
    )
    assert look_at_group(2, {"": str(folder), "cpu": str(folder)}) == Look(
        cpu_us=5_000_000,
        periods=40,
        throttled=10,
        memory_bytes=70 * MIB,
        cache_bytes=45 * MIB,
        swap_bytes=4096,
        disk_read_bytes=111,
        disk_written_bytes=10,
    )


def test_a_group_of_version_2_without_controllers_tells_its_cpu_time_and_no_more(tmp_path: Path) -> None:
    folder = written(tmp_path, {"cpu.stat": "usage_usec 12\nuser_usec 10\n"})
    assert look_at_group(2, {"": str(folder)}) == Look(cpu_us=12)


def test_where_cpu_and_cpuacct_are_one_version_1_tells_cpu_time_too(tmp_path: Path) -> None:
    cpu, memory = tmp_path / "cpu", tmp_path / "memory"
    cpu.mkdir()
    memory.mkdir()
    written(cpu, {"cpuacct.usage": "7000000\n", "cpu.stat": "nr_periods 4\nnr_throttled 1\n"})
    stat = f"inactive_file 1\ntotal_cache {8 * MIB}\ntotal_swap 0\ntotal_inactive_file {3 * MIB}\n"
    written(memory, {"memory.usage_in_bytes": f"{9 * MIB}\n", "memory.stat": stat})
    assert look_at_group(1, {"cpu": str(cpu), "memory": str(memory)}) == Look(
        cpu_us=7000, periods=4, throttled=1, memory_bytes=6 * MIB, cache_bytes=8 * MIB, swap_bytes=0
    )
