"""An agent reduced to its runner, in a process of its own so that it can be killed: FOLDER ATTEMPT SCRIPT…"""

import asyncio
import sys
from pathlib import Path

from tests.runner.conftest import ME, PATH
from tgpu.runner.port import LaunchSpec
from tgpu.runner.process import ProcessRunner


async def main(home: Path, orders: list[str]) -> None:
    runner = ProcessRunner(home / "records", home / "logs", home.name, cgroups=False)
    await runner.open(lambda event: print(event, flush=True))
    print("spawner", runner._spawner.process.pid, flush=True)
    for attempt, script in zip(orders[::2], orders[1::2], strict=True):
        runner.launch(LaunchSpec(attempt, ("sh", "-c", script), {"PATH": PATH}, "/", ME, None, 5, 1 << 20))
    await asyncio.sleep(600)


asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))
