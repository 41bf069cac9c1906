"""The kernel's small files: what cannot be read or written is simply not there."""

import os

READ = 1 << 16


def write(path: str, text: str) -> bool:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.write(fd, text.encode("ascii")) > 0
    except OSError:
        return False
    finally:
        os.close(fd)


def read(path: str) -> str:
    """All of it; empty if there is nothing to read. (`open` would load a codec, once in each supervisor.)"""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return b"".join(iter(lambda: os.read(fd, READ), b"")).decode("ascii", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)


def number(path: str) -> int:
    """0 if there is none, or if it is `max`."""
    text = read(path).strip()
    return int(text) if text.isdigit() else 0


def entry(path: str, name: str) -> int:
    """Of a file of lines `name number`."""
    for line in read(path).split("\n"):
        key, _, value = line.partition(" ")
        if key == name and value.isdigit():
            return int(value)
    return 0


def entry_kib(path: str, name: str) -> int:
    """Of a file of lines `name  number kB`."""
    for line in read(path).split("\n"):
        if line.startswith(name):
            return int(line.split()[1])
    return 0


def members(folder: str) -> list[int]:
    """All of them, however many; a number twice while it moves."""
    return [int(line) for line in read(f"{folder}/cgroup.procs").split()]
