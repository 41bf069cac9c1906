"""An agent reduced to its runner, started by hand in a session of systemd: FOLDER PROC SESSION SCRIPT…

It sees only version 2 of cgroups, and steps into the session's group first.
"""

import asyncio
import functools
import sys
from pathlib import Path

from tests.runner.conftest import ME, PATH
from tgpu.runner import isolation, process
from tgpu.runner.cgroups.detect import detect
from tgpu.runner.cgroups.scope import Scope
from tgpu.runner.port import LaunchSpec


async def main(home: Path, proc: str, *scripts: str) -> None:
    isolation.detect = functools.partial(detect, proc=proc)  # type: ignore[attr-defined]
    process.Scope = functools.partial(Scope, systemd=proc)  # type: ignore[attr-defined]
    runner = process.ProcessRunner(home / "records", home / "logs", "c1", cgroups=True, systemd_scope=True)
    found = await runner.open(lambda event: print(event, flush=True))
    print("open", found, {each.name: each.why_not for each in runner.abilities()}["freezer"], flush=True)
    for number, script in enumerate(scripts, 1):
        argv = ("sh", "-c", script)
        runner.launch(LaunchSpec(f"{number}.0.1", argv, {"PATH": PATH}, "/", ME, None, 5, 1 << 20))
    await asyncio.sleep(600)


Path(sys.argv[3], "cgroup.procs").write_text("0")
asyncio.run(main(Path(sys.argv[1]), sys.argv[2], *sys.argv[4:]))
