"""What a cgroup tells of those in it; the same of both versions, whoever made it."""

from tgpu.runner.cgroups import files
from tgpu.runner.look import Look

NS_IN_US = 1000


def look_at_group(version: int, folders: dict[str, str]) -> Look:
    """`folders`: by controller; of version 2 they are all the same, also under the empty name."""
    return _legacy(folders) if version == 1 else _unified(folders.get("", ""))


def _legacy(folders: dict[str, str]) -> Look:
    """Disks are left out: of version 1, whoever writes a file is not whom its group counts."""
    cpu = folders.get("cpu", "")
    used = _number(f"{folders.get('cpuacct') or cpu}/cpuacct.usage")
    held = _numbers(f"{cpu}/cpu.stat") if cpu else {}
    memory = folders.get("memory", "")
    usage = _number(f"{memory}/memory.usage_in_bytes") if memory else None
    kept = _numbers(f"{memory}/memory.stat") if usage is not None else {}
    return Look(
        cpu_us=None if used is None else used // NS_IN_US,
        periods=held.get("nr_periods"),
        throttled=held.get("nr_throttled"),
        memory_bytes=_needed(usage, kept.get("total_inactive_file", 0)),
        cache_bytes=kept.get("total_cache"),
        swap_bytes=kept.get("total_swap"),
    )


def _unified(folder: str) -> Look:
    held = _numbers(f"{folder}/cpu.stat")
    usage = _number(f"{folder}/memory.current")
    kept = _numbers(f"{folder}/memory.stat") if usage is not None else {}
    read, written = _disks(files.read(f"{folder}/io.stat"))
    return Look(
        cpu_us=held.get("usage_usec"),
        periods=held.get("nr_periods"),
        throttled=held.get("nr_throttled"),
        memory_bytes=_needed(usage, kept.get("inactive_file", 0)),
        cache_bytes=kept.get("file"),
        swap_bytes=_number(f"{folder}/memory.swap.current"),
        disk_read_bytes=read,
        disk_written_bytes=written,
    )


def _needed(usage: int | None, spare: int) -> int | None:
    return None if usage is None else max(0, usage - spare)


def _number(path: str) -> int | None:
    text = files.read(path).strip()
    return int(text) if text.isdigit() else None


def _numbers(path: str) -> dict[str, int]:
    words = files.read(path).split()
    return {name: int(value) for name, value in zip(words[::2], words[1::2], strict=False) if value.isdigit()}


def _disks(text: str) -> tuple[int | None, int | None]:
    """Of lines `8:0 rbytes=1 wbytes=2 …`; a group without such a file does not tell."""
    totals = {"rbytes": 0, "wbytes": 0}
    for word in text.split():
        name, _, value = word.partition("=")
        if name in totals and value.isdigit():
            totals[name] += int(value)
    return (totals["rbytes"], totals["wbytes"]) if text else (None, None)
