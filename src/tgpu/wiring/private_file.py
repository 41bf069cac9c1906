"""A file that only its owner may read: written whole or not at all, whatever happens meanwhile."""

import os
from pathlib import Path


def write_private(path: Path, text: str, *, outlives_power_loss: bool = True) -> None:
    beside = path.with_suffix(".new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        if outlives_power_loss:
            file.flush()
            os.fsync(file.fileno())
    beside.replace(path)
