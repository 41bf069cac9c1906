"""A container from its launch to its recorded end, beside `docker run` of the same image.

Both run `true` without a network on the same private engine, in turns. `docker run` is the command line, from
its start to its end; a tgpu container is timed from the order given to a DockerRunner until its end is on
disk and told. Both create it, attach to it, start it and wait for it; tgpu also checks mounts and user, keeps
the output in files and forces the end to disk. What it adds may be no more than 30 ms. Needs root, dockerd
and the command docker.
"""

import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import Case, arguments, at_most, emit, figure, percentile
from tgpu.domain.container import Container
from tgpu.observe.logs import configure
from tgpu.runner.docker.body import House
from tgpu.runner.docker.runner import DockerRunner
from tgpu.runner.port import AttemptEnded, LaunchSpec, RunnerEvent

sys.path.insert(0, str(Path(__file__).parent.parent))  # the tests' own engine

from tests.docker_engine import IMAGE, PrivateEngine

SAMPLES, QUICK_SAMPLES, WARM_UP = 60, 12, 3
MOST_MS = 30


def docker_ms(engine: PrivateEngine) -> float:
    began = time.perf_counter()
    flags = ["--init", "--network", "none", "--log-driver", "local"]
    subprocess.run(["docker", "-H", engine.url, "run", *flags, IMAGE, "true"], check=True)
    return 1000 * (time.perf_counter() - began)


class Node:
    """A runner, and who waits for an end."""

    def __init__(self, folder: Path, engine: PrivateEngine) -> None:
        self._ended: asyncio.Queue[str] = asyncio.Queue()
        self.runner = DockerRunner(
            folder / "records",
            folder / "logs",
            "bench",
            find=lambda: engine.url,
            house=House(mount_allow=("~",), networks=("none",), gpu_injection="off"),
            credentials=folder / "config.json",
            keep_s=3600,
        )

    def heard(self, event: RunnerEvent) -> None:
        if isinstance(event, AttemptEnded):
            assert event.exit.exit_code == 0, event
            self._ended.put_nowait(event.attempt)

    async def ran_ms(self, number: int) -> float:
        began = time.perf_counter()
        self.runner.launch(
            LaunchSpec(
                attempt=f"{number}.0.1",
                argv=("true",),
                env={},
                cwd="/",
                user="root",
                time_limit_s=None,
                grace_s=5,
                log_cap_bytes=1 << 20,
                container=Container(IMAGE),
            )
        )
        await self._ended.get()
        return 1000 * (time.perf_counter() - began)


async def pairs(engine: PrivateEngine, folder: Path, samples: int) -> list[tuple[float, float]]:
    node = Node(folder, engine)
    await node.runner.open(node.heard)
    try:
        return [
            (await asyncio.to_thread(docker_ms, engine), await node.ran_ms(number + 1))
            for number in range(samples)
        ]
    finally:
        await node.runner.close()


def measure(samples: int) -> list[Case]:
    engine, folder = PrivateEngine(), Path(tempfile.mkdtemp(prefix="tgpu-bench-"))
    try:
        engine.start()
        engine.bring()
        found = asyncio.run(pairs(engine, folder, WARM_UP + samples))[WARM_UP:]
    finally:
        engine.close()
        shutil.rmtree(folder, ignore_errors=True)
    theirs, ours = zip(*found, strict=True)
    added = percentile(ours, 50) - percentile(theirs, 50)
    return [
        figure("container_p50", percentile(ours, 50), "ms", percentile(theirs, 50)),
        at_most("container_added_p50", added, "ms", MOST_MS),
    ]


def main() -> int:
    args = arguments(__doc__).parse_args()
    configure("warning")
    emit(measure(QUICK_SAMPLES if args.quick else SAMPLES), as_json=args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
