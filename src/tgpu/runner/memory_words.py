"""Whether a task ran out of memory, and how that is told: by the kernel's own count, never by a signal."""

from tgpu.runner.light import signal

MIB = 1 << 20


def verdict(  # noqa: PLR0917  all that is known of an end
    cause: str, number: int | None, kills: int, at_limit: bool, peak_mib: int, limit_mib: int
) -> tuple[str, str]:
    """The cause, and what to say of it. `number`: the signal that ended the main process, if one did.

    If one of its children was killed and it ended by itself, that stays the cause.
    """
    if kills <= 0 or cause not in ("exited", "signalled"):
        return cause, ""
    words = _words(at_limit, peak_mib, limit_mib)
    if number == signal.SIGKILL:
        return "out-of-memory", words
    one = "a process of it was" if kills == 1 else f"{kills} processes of it were"
    return cause, f"out of memory, {one} killed: {words}"


def _words(at_limit: bool, peak_mib: int, limit_mib: int) -> str:
    if at_limit and limit_mib:
        return f"it used {min(peak_mib, limit_mib)} MiB of its limit of {limit_mib} MiB"
    return f"the machine had no more, and it used {peak_mib} MiB"
