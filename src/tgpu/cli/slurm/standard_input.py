"""What is typed or piped into `srun`: a file can follow a job to its node, a pipe cannot."""

from __future__ import annotations

import os
import select
import stat

from tgpu.cli.slurm.main import warn


def file_of(program: str) -> str | None:
    """Its path. What comes through a pipe is not passed on: that is said, if something has come."""
    try:
        kind = os.fstat(0).st_mode
        if stat.S_ISREG(kind):
            return os.readlink("/proc/self/fd/0")  # noqa: PTH115  as a string
        if stat.S_ISFIFO(kind) and select.select([0], [], [], 0)[0] and _waiting_bytes():
            warn(program, "standard input is a pipe, and is not passed on: say --input=FILE")
    except OSError:  # it is closed
        pass
    return None


def _waiting_bytes() -> int:
    import array  # noqa: PLC0415  only who is written to by a pipe
    import fcntl  # noqa: PLC0415
    import termios  # noqa: PLC0415

    found = array.array("i", [0])
    fcntl.ioctl(0, termios.FIONREAD, found)
    return found[0]
