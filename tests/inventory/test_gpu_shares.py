"""Whose processes do what on a GPU: NVIDIA's own binding, on a library that says what the test likes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.inventory.nvml_stub import NvmlStub
from tgpu.agent.inventory.gpus import GpuProcess, GpuProcesses
from tgpu.agent.inventory.shares import shares_of
from tgpu.agent.use.gpu_meter import DeviceShares

ASK = """
import json, sys
from pathlib import Path
from tgpu.agent.inventory import Inventory, Owners
from tgpu.config.settings import Settings
inventory = Inventory(Settings(home=Path(sys.argv[1])))
inventory.owners = Owners("here")
for _ in range(2):
    print(json.dumps(inventory.gpu_shares()))
"""


class SaidOwners:
    """Who is whose, by somebody's word."""

    def __init__(self, whose: dict[int, str | None]) -> None:
        self._whose = whose

    def attempt_of(self, pid: int) -> str | None:
        return self._whose.get(pid)


@pytest.fixture
def task() -> Iterator[int]:
    """A process that carries an attempt's name."""
    env = {**os.environ, "TGPU_ATTEMPT_KEY": "here:5.0.1"}
    with subprocess.Popen(["sleep", "100"], env=env) as process:
        yield process.pid
        process.kill()


def test_nvml_tells_what_each_attempt_does_on_each_gpu(tmp_path: Path, task: int) -> None:
    stub = NvmlStub(tmp_path)
    stub.says(
        f"gpu 0 process {task} 4000", f"gpu 0 busy {task} 60",
        f"gpu 1 process {task} 70", "gpu 1 busy 0 0",
        f"gpu 2 process {task} 9",
    )  # fmt: skip
    env = {"PATH": "/usr/bin:/bin", **stub.environ}
    said = subprocess.run([sys.executable, "-c", ASK, tmp_path], env=env, stdout=subprocess.PIPE, check=True)
    looks: list[Any] = [json.loads(line) for line in said.stdout.splitlines()]
    one = {
        "0": [{"5.0.1": 60}, {"5.0.1": 4000}],
        "1": [{}, {"5.0.1": 70}],
        "2": [None, {"5.0.1": 9}],
    }
    assert looks == [one, one]


def test_processes_of_one_attempt_are_added_up_and_strangers_left_out() -> None:
    on_it = (GpuProcess(1, 100), GpuProcess(2, 200), GpuProcess(3, 400), GpuProcess(4, None))
    whose = SaidOwners({1: "5.0.1", 2: "5.0.1", 4: "6.0.1"})
    told = shares_of(GpuProcesses(on_it, {1: 70, 2: 60, 3: 20, 4: 1}), whose)
    assert told == DeviceShares({"5.0.1": 100, "6.0.1": 1}, {"5.0.1": 300})


def test_if_nobody_knows_whose_a_tasks_process_is_percentages_are_not_told() -> None:
    found = GpuProcesses((GpuProcess(1, 100),), {1: 70, 2: 10})
    assert shares_of(found, SaidOwners({1: "5.0.1", 2: ""})) == DeviceShares(None, {"5.0.1": 100})
