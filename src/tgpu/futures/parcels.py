"""Calls and what comes of them, in files; and the program that makes a call and writes its result.

This file stands alone: a copy of it lies beside the calls, so a job needs no tgpu, only Python, and
cloudpickle if the function came by it. A file of calls is: a mark, how many parts there are, where each
begins and the last ends, and the parts: what to prepare, the function, and for each task the arguments of
its calls.
"""

import os
import pickle
import struct
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

CALLS = "calls"
_MARK = b"tgpu-calls-1\n"
_WORD = struct.Struct("<Q")


class Outcome(NamedTuple):
    """How the calls of a task went. `value` is pickled: a list of what they returned, or an exception; empty:
    it could not be. Read in two steps, so that what cannot be brought back can be told."""

    attempt: int
    returned: bool
    value: bytes
    said: str = ""
    """The exception in one line, and below in full."""
    trace: str = ""


def write_calls(folder: Path, parts: Sequence[bytes]) -> None:
    """The last file of its folder to be written."""
    offset = len(_MARK) + _WORD.size * (len(parts) + 2)
    head = [_MARK, _WORD.pack(len(parts)), _WORD.pack(offset)]
    for part in parts:
        offset += len(part)
        head.append(_WORD.pack(offset))
    with (folder / CALLS).open("xb") as file:
        file.write(b"".join(head))
        file.writelines(parts)


def read_parts(folder: Path, *wanted: int) -> list[bytes]:
    """Only those: of a hundred thousand tasks each reads its own."""
    with (folder / CALLS).open("rb") as file:
        if file.read(len(_MARK)) != _MARK:
            raise ValueError(f"{folder / CALLS} is no file of calls")
        found = []
        for number in wanted:
            file.seek(len(_MARK) + _WORD.size * (number + 1))
            begin, end = (_WORD.unpack(file.read(_WORD.size))[0] for _ in range(2))
            file.seek(begin)
            found.append(file.read(end - begin))
        return found


def write_outcome(folder: Path, index: int, outcome: Outcome) -> None:
    """Whole or not at all; of a later attempt, in place of the earlier one's."""
    path = _outcome(folder, index)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_bytes(pickle.dumps(tuple(outcome)))
    part.replace(path)


def read_outcome(folder: Path, index: int) -> Outcome | None:
    try:
        data = _outcome(folder, index).read_bytes()
    except FileNotFoundError:
        return None
    return Outcome(*pickle.loads(data))  # noqa: S301  its folder is its owner's alone


def _outcome(folder: Path, index: int) -> Path:
    return folder / f"{index}.outcome"


def _dumps(value: object) -> bytes:
    try:
        import cloudpickle  # noqa: PLC0415  where it is, it takes more than pickle does
    except ImportError:
        return pickle.dumps(value)
    dumped: bytes = cloudpickle.dumps(value)
    return dumped


def _made(folder: Path, index: int) -> Outcome:
    attempt = int(os.environ.get("TGPU_ATTEMPT", "1"))
    try:
        prepare, function, calls = read_parts(folder, 0, 1, index + 2)
        sys.path[:1] = pickle.loads(prepare)  # noqa: S301  what its owner wrote; the first is this file's folder
        call = pickle.loads(function)  # noqa: S301
        results = [call(*args, **named) for args, named in pickle.loads(calls)]  # noqa: S301
        return Outcome(attempt, returned=True, value=_dumps(results))
    except Exception as error:  # noqa: BLE001  whatever it is, its owner wants to see it
        traceback.print_exc()
        trace = traceback.format_exc()
        said = traceback.format_exception_only(error)[-1].strip()
        return Outcome(attempt, returned=False, value=_carried(error), said=said, trace=trace)


def _carried(error: Exception) -> bytes:
    """Empty if it cannot be pickled, or not be made again from that."""
    try:
        data = _dumps(error.with_traceback(None))
        pickle.loads(data)  # noqa: S301  made in the line before
    except Exception:  # noqa: BLE001  its class may do anything
        return b""
    return data


def main(arguments: Sequence[str]) -> int:
    folder = Path(arguments[0])
    index = int(os.environ.get("TGPU_ARRAY_INDEX", "0"))
    outcome: Any = _made(folder, index)
    sys.stdout.flush()
    write_outcome(folder, index, outcome)
    return 0 if outcome.returned else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
