"""Which GPUs' device files there are, and which of them a task must be kept from."""

import os
import re
import stat
from collections.abc import Collection, Sequence
from pathlib import Path

DEV = Path("/dev")
_GPU = re.compile(r"nvidia([0-9]+)")
"""Only the GPUs themselves: `nvidiactl` and `nvidia-uvm` are everybody's."""


def device_files(folder: Path = DEV) -> dict[int, str]:
    """`major:minor` by the number in the name."""
    found: dict[int, str] = {}
    try:
        paths = list(folder.iterdir())
    except OSError:
        return found
    for path in paths:
        match = _GPU.fullmatch(path.name)
        if match is not None:
            about = path.stat()
            if stat.S_ISCHR(about.st_mode):
                found[int(match[1])] = f"{os.major(about.st_rdev)}:{os.minor(about.st_rdev)}"
    return found


def barred(files: dict[int, str], given: Collection[int] | None) -> list[str] | None:
    """None: nothing is known of what it was given, or there is nothing to be kept from."""
    if given is None or not files:
        return None
    return [device for number, device in sorted(files.items()) if number not in given]


def numbered_inside(given: Sequence[int]) -> str:
    """As CUDA counts them for whoever can open no others: it passes over what it cannot open, and numbers the
    rest from 0, in the order of the bus."""
    order = sorted(given)
    return ",".join(str(order.index(device)) for device in given)
