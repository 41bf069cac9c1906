"""What a task is held to, and how the kernel's files say it."""

MIB = 1 << 20
PERIOD_US = 100_000
LEAST_QUOTA_US = 1_000
"""The kernel takes no less; so a very small share is counted over a longer time."""
LONG_PERIOD_US = 1_000_000
SHARES_OF_A_CPU = 1024
WEIGHT_OF_A_CPU = 100
_SHARES = (2, 262_144)
_WEIGHTS = (1, 10_000)

Text = tuple[str, str, str]
"""Controller, file, what to write."""


class Bounds:
    """As they come over the pipe; see `tgpu.runner.limits`."""

    __slots__ = (
        "barred", "cpu_limit_milli", "cpu_milli", "cpus", "disk_limit_mib", "disk_mib", "memory_limit_mib",
        "oom_score_adj", "pids", "user_pids",
    )  # fmt: skip

    def __init__(  # noqa: PLR0917  as they come over the pipe
        self,
        cpu_milli: int = 0,
        cpu_limit_milli: int = 0,
        memory_limit_mib: int = 0,
        pids: int = 0,
        barred: list[str] | None = None,
        cpus: str = "",
        oom_score_adj: int | None = None,
        user_pids: int = 0,
        disk_mib: int = 0,
        disk_limit_mib: int = 0,
    ) -> None:
        self.cpu_milli = cpu_milli
        self.cpu_limit_milli = cpu_limit_milli
        self.memory_limit_mib = memory_limit_mib
        self.pids = pids
        self.barred = barred
        """Device files that it may not open, `major:minor`; None: not a matter of this task's."""
        self.cpus = cpus
        """As the kernel lists them, `0-3,8`; empty: any."""
        self.oom_score_adj = oom_score_adj
        self.user_pids = user_pids
        self.disk_mib = disk_mib
        self.disk_limit_mib = disk_limit_mib
        """Of its private /tmp, which the agent measures."""

    def cpu_set(self) -> set[int]:
        found: set[int] = set()
        for part in filter(None, self.cpus.split(",")):
            first, _, last = part.partition("-")
            found.update(range(int(first), int(last or first) + 1))
        return found


def quota(limit_milli: int) -> tuple[int, int]:
    """So many microseconds in each period; -1: no limit."""
    if limit_milli <= 0:
        return -1, PERIOD_US
    period = PERIOD_US if limit_milli * PERIOD_US // 1000 >= LEAST_QUOTA_US else LONG_PERIOD_US
    return max(LEAST_QUOTA_US, limit_milli * period // 1000), period


def shares(cpu_milli: int) -> int:
    return _within(cpu_milli * SHARES_OF_A_CPU // 1000, _SHARES)


def weight(cpu_milli: int) -> int:
    return _within(cpu_milli * WEIGHT_OF_A_CPU // 1000, _WEIGHTS)


def legacy_texts(bounds: Bounds) -> list[Text]:
    """For version 1; memory and devices, of which not every order of words is allowed, are not among them."""
    microseconds, period = quota(bounds.cpu_limit_milli)
    return [
        ("cpu", "cpu.shares", str(shares(bounds.cpu_milli or 1000))),
        ("cpu", "cpu.cfs_period_us", str(period)),
        ("cpu", "cpu.cfs_quota_us", str(microseconds)),
        ("pids", "pids.max", str(bounds.pids or "max")),
    ]


def unified_texts(bounds: Bounds) -> list[Text]:
    """For version 2. When it runs out of memory all of it ends, not one process, and it has no swap."""
    microseconds, period = quota(bounds.cpu_limit_milli)
    texts = [
        ("cpu", "cpu.weight", str(weight(bounds.cpu_milli or 1000))),
        ("cpu", "cpu.max", f"{'max' if microseconds < 0 else microseconds} {period}"),
        ("pids", "pids.max", str(bounds.pids or "max")),
        ("memory", "memory.oom.group", "1"),
    ]
    if bounds.memory_limit_mib:
        texts += [
            ("memory", "memory.max", str(bounds.memory_limit_mib * MIB)),
            ("memory", "memory.swap.max", "0"),
        ]
    if bounds.cpus:
        texts.append(("cpuset", "cpuset.cpus", bounds.cpus))
    return texts


def _within(value: int, ends: tuple[int, int]) -> int:
    return min(max(value, ends[0]), ends[1])
