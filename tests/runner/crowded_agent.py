"""An agent with many short tasks and real cgroups, to be killed in the midst: FOLDER CLUSTER FIRST COUNT."""

import asyncio
import sys
from pathlib import Path

from tests.runner.conftest import ME, PATH
from tgpu.runner.limits import Limits
from tgpu.runner.port import LaunchSpec
from tgpu.runner.process import ProcessRunner

LIMITS = Limits(cpu_milli=10, memory_limit_mib=64, pids=64)


async def main(home: Path, cluster: str, first: int, count: int) -> None:
    runner = ProcessRunner(home / "records", home / "logs", cluster, cgroups=True)
    await runner.open(lambda _event: None)
    for number in range(first, first + count):
        argv = ("sleep", "0.02")
        runner.launch(
            LaunchSpec(f"{number}.0.1", argv, {"PATH": PATH}, "/", ME, None, 5, 1 << 20, limits=LIMITS)
        )
    print("launched", flush=True)
    await asyncio.sleep(600)


asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
