"""What a node finds out about itself, and what it offers."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.inventory.nvml_stub import compiled
from tgpu.agent.inventory import Inventory, host
from tgpu.config.settings import Settings, SettingsError
from tgpu.domain.node import Device

ASK = """
import dataclasses, json, sys
from pathlib import Path
from tgpu.agent.inventory import Inventory
from tgpu.config.settings import Settings
inventory = Inventory(Settings(home=Path(sys.argv[1]), node_gpus=sys.argv[2]))
for line in sys.stdin:
    Path(sys.argv[3]).write_text(line.replace(";", chr(10)))
    devices = [dataclasses.asdict(device) for device in inventory.capacity().devices]
    use = inventory.measure()
    signs = [dataclasses.asdict(sign) for sign in use.gpu_signs]
    print(json.dumps([devices, use.gpu_percent, use.gpu_memory_mib, signs]), flush=True)
"""


def looks(env: Mapping[str, str], gpus: str, *said: str) -> list[Any]:
    """What an inventory tells in one look after the other, each time after the stub was told something."""
    with tempfile.TemporaryDirectory() as folder:
        control = Path(folder) / "control"
        control.write_text(said[0].replace(";", "\n") if said else "")
        answer = subprocess.run(
            [sys.executable, "-c", ASK, folder, gpus, control],
            env={"PATH": "/usr/bin:/bin", "NVML_STUB_CONTROL": str(control), **env},
            input="".join(f"{words}\n" for words in said),
            capture_output=True,
            text=True,
            check=False,
        )
    assert answer.returncode == 0, answer.stderr
    return [json.loads(line) for line in answer.stdout.splitlines()]


def ask(env: Mapping[str, str], gpus: str = "all") -> Any:
    return looks(env, gpus, "")[0]


@pytest.fixture(scope="session")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The real pynvml, on a library that says what we like."""
    return {"LD_LIBRARY_PATH": str(compiled(tmp_path_factory.mktemp("nvml")).parent)}


def device(index: int, model: str, memory_mib: int, **changes: object) -> dict[str, object]:
    known = Device(index, f"GPU-0000000{index}", model, memory_mib)
    return {**json.loads(json.dumps(asdict(known))), **changes}


def seen(index: int, model: str, memory_mib: int, **changes: object) -> dict[str, object]:
    return device(index, model, memory_mib, minor=index + 4, pci=f"0000:0{index + 1}:00.0", **changes)


A100 = ("NVIDIA A100-SXM4-40GB", 40960)


def test_nvml_names_every_gpu_and_what_is_in_use(nvml: dict[str, str]) -> None:
    devices, percent, memory, signs = ask(nvml)
    assert devices == [seen(0, *A100), seen(1, *A100), seen(2, "NVIDIA T4", 15360)]
    assert (percent, memory) == ([10, 20, 30], [100, 200, 300])
    assert (
        signs
        == [
            {
                "temperature_c": 40,
                "power_w": 100,
                "throttled": "",
                "ecc_uncorrected": 0,
                "ecc_uncorrected_ever": 0,
            }
        ]
        * 3
    )


def test_what_changes_all_the_time_is_measured_and_is_no_news_of_the_node(nvml: dict[str, str]) -> None:
    before, after = looks(
        nvml, "0", "", "gpu 0 temperature 77;gpu 0 power 312400;gpu 0 slow 68;gpu 0 ecc 3 5"
    )
    assert after[0] == before[0]
    assert after[3] == [
        {
            "temperature_c": 77,
            "power_w": 312,
            "throttled": "heat and power",
            "ecc_uncorrected": 3,
            "ecc_uncorrected_ever": 5,
        }
    ]


def test_what_an_older_library_does_not_tell_is_not_known(nvml: dict[str, str]) -> None:
    devices, _, _, signs = ask({**nvml, "NVML_STUB_OLD": "1"})
    assert all(known["healthy"] for known in devices)
    assert (signs[0]["temperature_c"], signs[0]["ecc_uncorrected"]) == (40, None)


def test_only_the_gpus_that_are_offered_are_named(nvml: dict[str, str]) -> None:
    devices, percent, *_ = ask(nvml, "2,0")
    assert [known["index"] for known in devices] == [0, 2]
    assert percent == [10, 30]
    assert ask(nvml, "none")[0] == []


def test_a_gpu_that_is_lost_is_ill_and_keeps_its_name(nvml: dict[str, str]) -> None:
    (before, *_), (after, percent, *_) = looks(nvml, "all", "", "gpu 1 lost")
    assert before[1]["healthy"]
    assert after[1] == {**before[1], "healthy": False, "lost": True, "note": "GPU is lost"}
    assert after[::2] == before[::2]
    assert percent == [10, None, 30]


def test_a_gpu_that_was_lost_from_the_start_is_ill(nvml: dict[str, str]) -> None:
    (devices, *_) = looks(nvml, "all", "gpu 0 lost")[0]
    assert devices[0] == device(0, "unknown", 0, uuid="", healthy=False, lost=True, note="GPU is lost")
    assert devices[1]["healthy"]


def test_a_gpu_that_is_not_there_any_more_is_ill_and_keeps_its_name(nvml: dict[str, str]) -> None:
    (before, *_), (after, *_) = looks(nvml, "all", "", "count 2")
    gone = {"healthy": False, "lost": True, "note": "it is not there any more"}
    assert after == [before[0], before[1], {**before[2], **gone}]


def islands(nvml: dict[str, str], count: int, links: str, **more: str) -> list[int | None]:
    devices, *_ = ask({**nvml, "NVML_STUB_COUNT": str(count), "NVML_STUB_LINKS": links, **more})
    return [known["island"] for known in devices]


def test_gpus_that_are_linked_form_an_island(nvml: dict[str, str]) -> None:
    assert islands(nvml, 3, "0-1") == [0, 0, None]
    assert islands(nvml, 6, "3-5 1-3 0-2") == [0, 1, 0, 1, None, 1]
    assert islands(nvml, 8, "0-1 0-1 2-3 4-5 6-7 1-2 5-6") == [0, 0, 0, 0, 4, 4, 4, 4]


def test_all_gpus_behind_switches_are_one_island(nvml: dict[str, str]) -> None:
    assert islands(nvml, 5, "4-s 1-s 1-s 2-s") == [None, 1, 1, None, 1]


def test_a_link_that_leads_elsewhere_makes_no_island(nvml: dict[str, str]) -> None:
    assert islands(nvml, 3, "0-8") == [None, None, None]


def test_a_library_that_does_not_tell_switches_from_gpus_still_names_neighbours(nvml: dict[str, str]) -> None:
    assert islands(nvml, 3, "0-1 2-s", NVML_STUB_OLD="1") == [0, 0, None]


def test_a_gpu_that_is_lost_keeps_its_island_and_splits_none(nvml: dict[str, str]) -> None:
    (before, *_), (after, *_) = looks({**nvml, "NVML_STUB_LINKS": "0-1 1-2"}, "all", "", "gpu 1 lost")
    assert [known["island"] for known in before] == [0, 0, 0]
    assert [known["island"] for known in after] == [0, 0, 0]


def smi(folder: Path, script: str) -> dict[str, str]:
    (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "nvidia-smi").chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def test_nvidia_smi_serves_where_nvml_cannot_be_loaded(tmp_path: Path) -> None:
    script = """
case "$*" in
*compute-apps*) echo "$PPID, GPU-00000000, 900" ;;
*name*)
  echo '0, GPU-00000000, Tesla V100, 16384, 55, 0'
  echo '1, GPU-00000001, Tesla V100, [Unknown Error], [N/A], [N/A]'
  echo '2, GPU-00000002, Tesla V100, 16384, 55, 11' ;;
*utilization*) echo '0, 55, 1024, 56, 61.5'; echo '1, [N/A], [N/A], [N/A], [N/A]' ;;
*) echo 0; echo 1; echo 2 ;;
esac"""
    devices, percent, memory, signs = ask(smi(tmp_path, script))
    silent = {"healthy": False, "note": "nvidia-smi says [Unknown Error]"}
    errors = "its memory has had more than 10 errors that could not be corrected"
    assert devices == [
        device(0, "Tesla V100", 16384),
        device(1, "Tesla V100", 0, **silent),
        device(2, "Tesla V100", 16384, healthy=False, lost=True, note=errors),
    ]
    assert (percent, memory) == ([55, None, None], [1024, None, None])
    assert (signs[0]["temperature_c"], signs[0]["power_w"]) == (56, 62)


def test_without_nvml_and_with_a_failing_nvidia_smi_there_are_no_gpus(tmp_path: Path) -> None:
    assert ask(smi(tmp_path, "echo NVIDIA-SMI has failed; exit 9"))[0] == []


def test_without_anything_there_are_no_gpus() -> None:
    assert ask({})[0] == []


def test_gpus_can_be_simulated(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, simulate_gpus=3, simulate_gpu_model="A100", node_gpus="0,2")
    inventory = Inventory(settings)
    devices = inventory.capacity().devices
    assert [(known.index, known.uuid, known.model) for known in devices] == [
        (0, "GPU-simulated-0", "A100"),
        (2, "GPU-simulated-2", "A100"),
    ]
    assert inventory.measure().gpu_percent == (None, None), "nobody can say what they do"


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("0,5,7", "node_gpus names GPU 5, 7, which this node does not have; it has: 0, 1"),
        (
            "some",
            (
                "node_gpus must be `all`, `none`, indices such as 0,2, or GPUs that cannot be seen, such as "
                "4xA100:80G; got 'some'"
            ),
        ),
    ],
)
def test_what_is_not_there_cannot_be_offered(tmp_path: Path, said: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as error:
        Inventory(Settings(home=tmp_path, simulate_gpus=2, node_gpus=said))
    assert str(error.value) == sentence


def test_what_is_offered_is_what_the_settings_say(tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path,
        node_cpus=1.5,
        node_memory="8G",
        node_disk="1T",
        simulate_gpus=1,
        node_gpus="none",
        node_generic=("port=1", "licence=2"),
    )
    capacity = Inventory(settings).capacity()
    assert (capacity.cpu_milli, capacity.memory_mib, capacity.disk_mib) == (1500, 8192, 1 << 20)
    assert (capacity.devices, capacity.generic) == ((), {"licence": 2, "port": 1})


def test_without_settings_it_is_what_the_machine_has(tmp_path: Path) -> None:
    inventory = Inventory(Settings(home=tmp_path / "not" / "yet", node_gpus="none"))
    capacity, use = inventory.capacity(), inventory.measure()
    assert 1 <= capacity.cpu_milli <= 1000 * os.cpu_count()
    assert use.memory_mib > 0
    assert capacity.memory_mib > 0
    assert capacity.disk_mib > 0


def test_a_containers_limits_count_in_version_2(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/pod/box\n")
    (tmp_path / "cg" / "pod" / "box").mkdir(parents=True)
    (tmp_path / "cg" / "pod" / "box" / "cpu.max").write_text("max 100000\n")
    (tmp_path / "cg" / "pod" / "cpu.max").write_text("50000 100000\n")
    (tmp_path / "cg" / "pod" / "box" / "memory.max").write_text(f"{64 << 20}\n")
    (tmp_path / "cg" / "pod" / "memory.max").write_text("max\n")
    assert host.cpu_milli(tmp_path / "cg", own) == 500
    assert host.memory_mib(tmp_path / "cg", own) == 64


def test_a_containers_limits_count_in_version_1(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("4:memory:/box\n1:cpu,cpuacct:/\n")
    (tmp_path / "cg" / "cpu").mkdir(parents=True)
    (tmp_path / "cg" / "cpu" / "cpu.cfs_quota_us").write_text("25000\n")
    (tmp_path / "cg" / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    (tmp_path / "cg" / "memory" / "box").mkdir(parents=True)
    (tmp_path / "cg" / "memory" / "box" / "memory.limit_in_bytes").write_text(f"{32 << 20}\n")
    assert host.cpu_milli(tmp_path / "cg", own) == 250
    assert host.memory_mib(tmp_path / "cg", own) == 32


def test_the_memory_that_is_left_is_the_least_of_the_machine_and_its_groups(tmp_path: Path) -> None:
    meminfo, own = tmp_path / "meminfo", tmp_path / "own"
    meminfo.write_text("MemTotal: 1000000 kB\nMemAvailable: 512000 kB\n")
    own.write_text("4:memory:/box\n0::/pod\n")
    assert host.memory_left_mib(tmp_path / "cg", own, meminfo) == 500
    box = tmp_path / "cg" / "memory" / "box"
    box.mkdir(parents=True)
    (box / "memory.limit_in_bytes").write_text(f"{100 << 20}\n")
    (box / "memory.usage_in_bytes").write_text(f"{90 << 20}\n")
    (box / "memory.stat").write_text(f"inactive_file 0\ntotal_inactive_file {5 << 20}\n")
    assert host.memory_left_mib(tmp_path / "cg", own, meminfo) == 15
    pod = tmp_path / "cg" / "pod"
    pod.mkdir()
    (pod / "memory.max").write_text(f"{64 << 20}\n")
    (pod / "memory.current").write_text(f"{60 << 20}\n")
    (pod / "memory.stat").write_text(f"anon 9\ninactive_file {1 << 20}\nactive_file {2 << 20}\n")
    assert host.memory_left_mib(tmp_path / "cg", own, meminfo) == 7


def unseen(home: Path, said: str) -> list[tuple[str, int]]:
    devices = Inventory(Settings(home=home, node_gpus=said)).capacity().devices
    assert [known.index for known in devices] == list(range(len(devices)))
    assert all(known.healthy for known in devices)
    return [(known.model, known.memory_mib) for known in devices]


def test_gpus_that_cannot_be_seen_are_stated_with_their_model_and_memory(tmp_path: Path) -> None:
    assert unseen(tmp_path, "4xA100-80GB") == [("A100-80GB", 81920)] * 4
    assert unseen(tmp_path, "2xT4:16G, 1xMI300:192G") == [("T4", 16384)] * 2 + [("MI300", 196608)]
    assert unseen(tmp_path, "3x") == [("GPU", 0)] * 3
    assert unseen(tmp_path, "0x") == []


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("4xA100,2", "node_gpus states GPUs as 4xA100:80G or 2xT4,2xMI300:192G; got '4xA100,2'"),
        ("4xA100:big", "node_gpus must be a"),
        ("99xA100", "node_gpus states 99 GPUs; a node may have at most 62"),
    ],
)
def test_a_statement_that_cannot_be_meant_is_refused(tmp_path: Path, said: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as error:
        Inventory(Settings(home=tmp_path, node_gpus=said))
    assert str(error.value).startswith(sentence)


def test_disk_that_was_full_at_the_start_is_offered_once_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [0, 1000, 1100, 400]
    monkeypatch.setattr(host, "disk_mib", lambda _: free.pop(0))
    inventory = Inventory(Settings(home=tmp_path, simulate_gpus=1))
    assert [inventory.capacity().disk_mib for _ in range(4)] == [0, 1000, 1000, 1000]
