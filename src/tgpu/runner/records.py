"""What is on disk about each attempt: who claimed it, and how it ended.

`exits.<n>` is a journal of lines: who claimed an attempt, how it ended (forced to disk before anybody is
told), that it is forgotten. `claims/<attempt>` is a hard link to the journal that was current: to make
one succeeds once and never again, so an attempt is run at most once, and it needs no inode of its own,
which would cost more than all the rest of the bookkeeping.

Supervisors import this module, so it imports next to nothing.
"""

import os
from _json import encode_basestring_ascii  # `json` itself would load the regular expressions too
from errno import ENOSPC

from tgpu.runner.disk_words import DISK_FULL

CLAIMS = "claims"
STOPS = "stops"
AT_ONCE = "\0at once"
"""After the detail of a stop: no grace."""
LINK_AT_ONCE = "!"
"""Before the text of a stop that is a link: no grace."""
LINK_MAX = 59
"""Bytes of a link that a filesystem keeps without a block of its own."""
LOCK = "spawner.lock"
SOCKET = "agent.sock"
HEARD = "heard"
DETAIL_MAX = 1000  # so that a journal line stays far below one page


def birth_of(pid: int) -> int | None:
    """When a process was started, in ticks since boot: with its pid this names it. None: it is gone."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return None
    try:
        text = os.read(fd, 4096)
    except OSError:  # it ended between the two calls
        return None
    finally:
        os.close(fd)
    after_name = text[text.rindex(b")") + 2 :].split(None, 20)
    return None if after_name[0] in (b"Z", b"X") else int(after_name[19])


def claim(attempt: str, generation: int, journal: int, line: bytes) -> bool:
    """True for exactly one caller, ever, whose line is in the journal then; False for all others. Raises
    OSError when the disk is full: then no caller has it."""
    path = f"{CLAIMS}/{attempt}"
    if not _is_linked(path, generation):
        return False
    try:
        write_line(journal, line)
    except OSError:
        os.unlink(path)  # noqa: PTH108  pathlib is too heavy here
        raise
    return True


def _is_linked(path: str, generation: int) -> bool:
    try:
        os.link(f"exits.{generation}", path)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links, or one link too many
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return False
    return True


def write_line(journal: int, line: bytes) -> None:
    """It begins with a newline too, so that a torn line before it cannot swallow it."""
    data = b"\n" + line + b"\n"
    if os.write(journal, data) != len(data):
        raise OSError(ENOSPC, "No space left on device")


def is_recorded(journal: int, line: bytes) -> bool:
    """Whether the disk took it: then it outlives a loss of power."""
    try:
        write_line(journal, line)
        os.fdatasync(journal)
    except OSError:
        return False
    return True


def note(text: str) -> None:
    """A line for the spawner's log; lost if the disk is full."""
    try:
        os.write(2, f"{text}\n".encode(errors="replace"))
    except OSError:
        return


def not_started(error: OSError) -> str:
    """Why no process could be started; `DISK_FULL` is not to be blamed on the task."""
    return DISK_FULL if error.errno == ENOSPC else f"cannot start a process: {error.strerror}"


def no_checkpoint_folder(error: OSError) -> str:
    """Why a task that needs one cannot start. A quota is its user's own: another node would not help."""
    if error.errno == ENOSPC:
        return DISK_FULL
    return f"its checkpoint folder cannot be made: {error.strerror}; remove checkpoints that are not needed"


def unclaimed_line(attempt: str) -> bytes:
    return f'{{"attempt":"{attempt}","unclaimed":true}}'.encode("ascii")


def claim_line(
    attempt: str, pid: int, birth: int, started_ms: int, tmp: tuple[str, int, int] | None = None
) -> bytes:
    """`tmp`: of a private /tmp, the user, what it reserved and its limit, both in MiB."""
    limit = "" if tmp is None else f',"tmp":[{encode_basestring_ascii(tmp[0])},{tmp[1]},{tmp[2]}]'
    return f'{{"attempt":"{attempt}","claim":[{pid},{birth},{started_ms}]{limit}}}'.encode("ascii")


def exit_line(
    attempt: str,
    cause: str,
    *,
    exit_code: int | None,
    signal: int | None,
    detail: str,
    started_ms: int | None,
    ended_ms: int,
    cpu_ms: int,
    peak_memory_mib: int,
    memory_limit_mib: int | None,
    checkpoint_ms: int | None,
    disks: tuple[int, int] | None,
    kept_tmp: str = "",
) -> bytes:
    """`disks`: bytes read and written, where that is worth telling."""

    def number(value: int | None) -> str:
        return "null" if value is None else str(value)

    use = ""
    if disks is not None:
        use = f',"use":{{"disk_read_bytes":{disks[0]},"disk_written_bytes":{disks[1]}}}'
    if kept_tmp:
        use += f',"kept_tmp":{encode_basestring_ascii(kept_tmp)}'
    return (
        f'{{"attempt":"{attempt}","exit":{{"cause":"{cause}","exit_code":{number(exit_code)}'
        f',"signal":{number(signal)},"detail":{encode_basestring_ascii(detail[:DETAIL_MAX])}'
        f',"started_ms":{number(started_ms)},"ended_ms":{ended_ms},"cpu_ms":{cpu_ms}'
        f',"peak_memory_mib":{peak_memory_mib},"memory_limit_mib":{number(memory_limit_mib)}'
        f',"checkpoint_ms":{number(checkpoint_ms)}{use}}}}}'
    ).encode("ascii")
