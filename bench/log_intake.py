"""What the time index costs a supervisor that takes in a task's output.

A process prints to a pipe, and this one moves its output into segment files, as a supervisor does. Each
figure is the output per second of CPU time that this takes, in user and kernel; the baseline is the same
without a time index, in the same run. Both are repeated in turn, and the best of each counts.
`log_intake_blocks`: pieces of 64 KiB without a pause. `log_intake_50_mb_s`: half a megabyte every 10 ms.
`log_intake_lines`: lines of 100 bytes, each written by itself. `log_index_50_mb_s`: the size of the index.
"""

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from report import Case, arguments, at_most, emit, ratio_at_least
from tgpu.runner.output import Stream
from tgpu.runner.time_index import LastWriter, TimeIndex

LEAST_RATIO, MOST_INDEX_PERCENT = 0.95, 10.0
CAP = 64 << 20
BLOCKS = """
import os, sys
piece = b"x" * 65535 + b"\\n"
for _ in range(int(sys.argv[1]) * 16): os.write(1, piece)
"""
PACED = """
import os, sys, time
piece, began = (b"x" * 99 + b"\\n") * 5_000, time.monotonic()
for number in range(int(sys.argv[1]) * 2):
    at = 0
    while at < len(piece): at += os.write(1, piece[at:])
    time.sleep(max(0.0, began + number / 100 - time.monotonic()))
"""
LINES = """
import os, sys
line = b"x" * 99 + b"\\n"
for _ in range(int(sys.argv[1]) * 10_000): os.write(1, line)
"""


class NoIndex(TimeIndex):
    """For the baseline: output without times."""

    def note(self, at: int, now_us: int) -> None:  # noqa: ARG002  none is written
        return


@dataclass(frozen=True, slots=True)
class Size:
    blocks_mb: int
    paced_mb: int
    lines_mb: int
    times: int


FULL, QUICK = Size(1000, 500, 100, 7), Size(300, 100, 20, 3)


def taken_in(
    program: str, size_mb: int, index: Callable[[int, LastWriter], TimeIndex]
) -> tuple[float, float]:
    """MB per second of CPU time; and how many percent of the kept output its index takes."""
    with tempfile.TemporaryDirectory() as folder:
        pipe, end = os.pipe()
        os.set_blocking(pipe, False)
        stream = Stream(pipe, f"{folder}/log", "stdout", CAP)
        stream._times = index(CAP // 2, LastWriter())  # noqa: SLF001  the baseline has none
        poller = select.poll()
        poller.register(pipe, select.POLLIN)
        with subprocess.Popen([sys.executable, "-I", "-S", "-c", program, str(size_mb)], stdout=end):
            os.close(end)
            began = time.process_time()
            while poller.poll() and stream.pump():
                pass
            took_s = time.process_time() - began
        stream.close()
        assert stream.lost == 0, f"{stream.lost} bytes were lost"
        sizes = {path.name: path.stat().st_size for path in Path(folder, "log").iterdir()}
    kept = sum(size for name, size in sizes.items() if name.startswith("stdout."))
    return size_mb / took_s, 100 * (sum(sizes.values()) - kept) / kept


def compared(name: str, program: str, size_mb: int, times: int) -> tuple[Case, float]:
    with_index, without, percent = 0.0, 0.0, 0.0
    for _ in range(times):
        without = max(without, taken_in(program, size_mb, NoIndex)[0])
        rate, percent = taken_in(program, size_mb, TimeIndex)
        with_index = max(with_index, rate)
    return ratio_at_least(name, with_index, "MB/CPU-s", LEAST_RATIO, without), percent


def main() -> int:
    args = arguments(__doc__).parse_args()
    size = QUICK if args.quick else FULL
    blocks, _ = compared("log_intake_blocks", BLOCKS, size.blocks_mb, size.times)
    paced, percent = compared("log_intake_50_mb_s", PACED, size.paced_mb, size.times)
    lines, _ = compared("log_intake_lines", LINES, size.lines_mb, size.times)
    index = at_most("log_index_50_mb_s", percent, "%", MOST_INDEX_PERCENT)
    emit([blocks, paced, lines, index], as_json=args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
