"""How many processes and threads this machine can have, and one user of it may."""

from pathlib import Path

AUTO = "auto"
USER_PART = 4


def kernel_pids() -> int:
    """What the kernel allows in all."""
    return min(int(Path(f"/proc/sys/kernel/{name}").read_text()) for name in ("pid_max", "threads-max"))


def user_pids(setting: str, of_kernel: int) -> int:
    """0: no limit."""
    return of_kernel // USER_PART if setting == AUTO else int(setting)
