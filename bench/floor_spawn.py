"""The least that running a job durably costs here: what `drain.py` is measured against.

Started with `python -I -S`, so it is a small warm process. It forks a supervisor per job, as many at once as
asked; the supervisor forks and executes `true`, waits for it, appends a line of 200 bytes to a journal and
has it on disk (fdatasync) before it ends. Nothing is scheduled, stored, sent or supervised beyond that.
Prints jobs per second.
"""

import gc
import os
import sys
import time

USAGE = "usage: python -I -S floor_spawn.py COUNT [AT_ONCE] [FOLDER]"
RECORD = b"x" * 199 + b"\n"


def supervise(journal: int) -> None:
    code = 127
    try:
        task = os.fork()
        if task == 0:
            os.execv("/bin/true", ["true"])
        _, status = os.waitpid(task, 0)
        os.write(journal, RECORD)
        os.fdatasync(journal)
        code = os.waitstatus_to_exitcode(status)
    finally:
        os._exit(code)


def run(count: int, at_once: int, journal: int) -> float:
    began = time.perf_counter()
    started = ended = failed = 0
    while ended < count:
        if started < count and started - ended < at_once:
            if os.fork() == 0:
                supervise(journal)
            started += 1
            continue
        _, status = os.waitpid(-1, 0)
        ended += 1
        failed += status != 0
    if failed:
        raise SystemExit(f"{failed} of {count} jobs failed")
    return count / (time.perf_counter() - began)


def main() -> None:
    words = sys.argv[1:]
    if not words or "--help" in words:
        print(USAGE)
        return
    count, at_once = int(words[0]), int(words[1]) if len(words) > 1 else 2
    path = f"{words[2] if len(words) > 2 else '/tmp'}/floor-{os.getpid()}.journal"
    journal = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
    try:
        gc.disable()
        gc.freeze()
        print(round(run(count, at_once, journal), 1))
    finally:
        os.unlink(path)  # noqa: PTH108  pathlib would make this process, and so its forks, larger


if __name__ == "__main__":
    main()
