"""What a node says that it can hold tasks to, and how heavily they weigh."""

from pathlib import Path

from tests.runner.conftest import Machine
from tests.runner.test_cgroup import needs_cgroups
from tgpu.domain.lifecycle import Cause
from tgpu.runner.abilities import BY_AFFINITY, UNIFIED_DEVICES, Ability, abilities
from tgpu.runner.cgroups.detect import NOT_WRITABLE, Detected
from tgpu.runner.cgroups.groups import Cgroups
from tgpu.runner.devices import barred, device_files, numbered_inside
from tgpu.runner.limits import Limits


def test_with_all_controllers_everything_is_enforced() -> None:
    bases = dict.fromkeys(("freezer", "cpu", "memory", "pids", "devices", "cpuset"), "/x")
    found = abilities(Detected(Cgroups(1, bases, {})), "")
    assert [ability.name for ability in found] == [
        "cpu limit", "memory limit", "processes", "freezer", "devices", "cpu pinning", "private tmp",
    ]  # fmt: skip
    assert {ability.why_not for ability in found} == {""}


def test_version_2_always_freezes_and_keeps_from_devices_where_the_kernel_lets_us() -> None:
    cgroups = Cgroups(2, {"": "/x", "memory": "/x"}, {})
    found = dict(abilities(Detected(cgroups, no_fence="Operation not permitted"), "no root"))
    assert found["devices"] == UNIFIED_DEVICES.format("Operation not permitted")
    assert found["memory limit"] == found["freezer"] == ""
    assert found["cpu limit"] == "the kernel has no controller cpu for us"
    assert found["private tmp"] == "no root"


def test_without_cgroups_the_reason_is_told() -> None:
    found = abilities(Detected(None, NOT_WRITABLE), "")
    assert found[0] == Ability("cpu limit", NOT_WRITABLE)
    assert dict(found)["cpu pinning"] == f"{BY_AFFINITY}{NOT_WRITABLE}"
    assert (
        abilities(Detected(None), "", "the setting cgroups is off")[0].why_not == "the setting cgroups is off"
    )


def test_a_runner_tells_of_its_own(machine: Machine) -> None:
    found = dict(machine.runner.abilities())
    assert found["memory limit"] == "the setting cgroups is off"
    assert found["private tmp"] == "the setting private_tmp is off"


def test_only_device_files_of_gpus_count(tmp_path: Path) -> None:
    (tmp_path / "nvidia0").touch()
    assert device_files(tmp_path) == {}
    assert device_files(tmp_path / "none") == {}
    files = {0: "195:0", 1: "195:1", 10: "195:10"}
    assert barred(files, (1,)) == ["195:0", "195:10"]
    assert barred(files, ()) == ["195:0", "195:1", "195:10"]
    assert barred(files, None) is None
    assert barred({}, (1,)) is None


def test_who_can_open_no_others_finds_its_gpus_counted_from_0() -> None:
    assert [numbered_inside(given) for given in ((5,), (2, 7, 4), ())] == ["0", "0,2,1", ""]


@needs_cgroups
def test_how_heavily_a_task_weighs_is_known_to_a_new_agent_too(grouped: Machine) -> None:
    hungry = "import time; x = bytearray(40 << 20); print('ready', flush=True); time.sleep(600)"
    limits = Limits(memory_mib=16, memory_limit_mib=128, oom_score_adj=700)
    attempt = grouped.launch("python3", "-c", hungry, limits=limits)
    grouped.start_of(attempt)
    grouped.until(lambda: grouped.output(attempt))
    (burden,) = grouped.runner.burdens()
    assert (burden.attempt, burden.score, burden.reserved_mib) == (attempt, 700, 16)
    assert 40 <= burden.used_mib <= 80
    grouped.close()
    grouped.open()
    (again,) = grouped.runner.burdens()
    assert (again.attempt, again.score) == (attempt, 700)
    grouped.runner.stop(attempt, Cause.MEMORY_PRESSURE, "it held too much")
    end = grouped.end_of(attempt)
    assert (end.cause, end.detail) == (Cause.MEMORY_PRESSURE, "it held too much")


def test_without_cgroups_its_processes_are_added_up(machine: Machine) -> None:
    hungry = "import time; x = bytearray(40 << 20); print('ready', flush=True); time.sleep(600)"
    attempt = machine.shell(f'python3 -c "{hungry}"; true')
    machine.start_of(attempt)
    machine.until(lambda: machine.output(attempt))
    (burden,) = machine.runner.burdens()
    assert 40 <= burden.used_mib <= 80
    machine.runner.stop(attempt, Cause.CANCELLED, "", at_once=True)
    machine.end_of(attempt)
