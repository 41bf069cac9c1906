"""Files of calls and their results, and the program that makes the calls and writes the results.

This file stands alone: a copy of it lies beside the calls, so a job needs no tgpu, only Python, and
cloudpickle if the function came by it. A file of calls is: a mark, the number of parts, where each
begins and the last ends, and the parts: what to prepare, the function, and for each task the arguments of
its calls.

Nothing here is unpickled on trust in a folder. Each part and each result carries an HMAC under a key of its
submission, which travels in the job's environment and is never in a file; `BOOTSTRAP` checks this program by
a digest in the job's command before running it.
"""

import hashlib
import hmac
import os
import pickle
import stat
import struct
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

CALLS, PROGRAM = "calls", "run.py"
KEY_VARIABLE = "TGPU_CALL_KEY"
BOOTSTRAP = """\
import sys
sys.path = [entry for entry in sys.path if entry]
import hashlib
path = sys.argv[1] + "/run.py"
with open(path, "rb") as file:
    program = file.read()
if hashlib.sha256(program).hexdigest() != sys.argv[2]:
    sys.exit(path + " is not the program that was submitted: it was changed since, and is not run")
exec(compile(program, path, "exec"))
"""
"""For `python -c`, with the folder and the digest of the program in it. The current directory is taken off
the module path first: others may write there."""
_MARK = b"tgpu-calls-2\n"
_WORD = struct.Struct("<Q")
_MAC_BYTES = hashlib.sha256().digest_size


class ForgedError(ValueError):
    """A file was not written by this submission, or was changed since."""


class Outcome(NamedTuple):
    """How the calls of a task went. `value` is pickled: a list of what they returned, or an exception; empty:
    it could not be. Read in two steps, so that what cannot be brought back can be told."""

    attempt: int
    returned: bool
    value: bytes
    said: str = ""
    """The exception in one line, and below in full."""
    trace: str = ""


def write_program(folder: Path) -> str:
    """Its digest, for the job's command."""
    program = Path(__file__).read_bytes()
    _write_new(folder / PROGRAM, program)
    return hashlib.sha256(program).hexdigest()


def write_calls(folder: Path, key: bytes, parts: Sequence[bytes]) -> None:
    """The last file of its folder to be written."""
    sealed = [_sealed(key, _part(number), part) for number, part in enumerate(parts)]
    offset = len(_MARK) + _WORD.size * (len(parts) + 2)
    head = [_MARK, _WORD.pack(len(parts)), _WORD.pack(offset)]
    for part in sealed:
        offset += len(part)
        head.append(_WORD.pack(offset))
    _write_new(folder / CALLS, *head, *sealed)


def read_parts(folder: Path, key: bytes, *wanted: int) -> list[bytes]:
    """Only those: of a hundred thousand tasks each reads its own. Raises ForgedError."""
    with _regular(folder / CALLS) as file:
        if file.read(len(_MARK)) != _MARK:
            raise ValueError(f"{folder / CALLS} is no file of calls")
        found = []
        for number in wanted:
            file.seek(len(_MARK) + _WORD.size * (number + 1))
            begin, end = (_WORD.unpack(file.read(_WORD.size))[0] for _ in range(2))
            file.seek(begin)
            found.append(_unsealed(key, _part(number), file.read(end - begin), folder / CALLS))
        return found


def write_outcome(folder: Path, key: bytes, index: int, outcome: Outcome) -> None:
    """Whole or not at all; of a later attempt, in place of the earlier one's."""
    path = _outcome(folder, index)
    part = path.with_suffix(f".{os.getpid()}.{os.urandom(4).hex()}.part")
    _write_new(part, _sealed(key, _result(index), pickle.dumps(tuple(outcome))))
    part.replace(path)


def read_outcome(folder: Path, key: bytes, index: int) -> Outcome | None:
    """None: there is none yet. Raises ForgedError before anything is unpickled."""
    path = _outcome(folder, index)
    try:
        with _regular(path) as file:
            data = _unsealed(key, _result(index), file.read(), path)
    except FileNotFoundError:
        return None
    return Outcome(*pickle.loads(data))  # noqa: S301  authenticated in the line above


def _outcome(folder: Path, index: int) -> Path:
    return folder / f"{index}.outcome"


def _part(number: int) -> bytes:
    """What a part's HMAC covers beside its bytes: one cannot stand in the place of another."""
    return b"part %d\n" % number


def _result(index: int) -> bytes:
    return b"result %d\n" % index


def _sealed(key: bytes, label: bytes, data: bytes) -> bytes:
    return _mac(key, label, data) + data


def _unsealed(key: bytes, label: bytes, sealed: bytes, path: Path) -> bytes:
    data = sealed[_MAC_BYTES:]
    if not hmac.compare_digest(_mac(key, label, data), sealed[:_MAC_BYTES]):
        raise ForgedError(f"{path} was not written by this submission, or was changed since: it is not read")
    return data


def _mac(key: bytes, label: bytes, data: bytes) -> bytes:
    made = hmac.new(key, label, hashlib.sha256)
    made.update(data)
    return made.digest()


def _write_new(path: Path, *pieces: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "wb") as file:  # noqa: PTH123  a descriptor
        file.writelines(pieces)


def _regular(path: Path) -> BinaryIO:
    """A link is not followed, and a pipe does not keep the reader waiting."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ForgedError(f"{path} is not a file: it is not read")
    return open(fd, "rb")  # noqa: PTH123  a descriptor, closed by the caller


def _dumps(value: object) -> bytes:
    try:
        import cloudpickle  # noqa: PLC0415  where it is, it takes more than pickle does
    except ImportError:
        return pickle.dumps(value)
    dumped: bytes = cloudpickle.dumps(value)
    return dumped


def _made(folder: Path, key: bytes, index: int) -> Outcome:
    attempt = int(os.environ.get("TGPU_ATTEMPT", "1"))
    try:
        prepare, function, calls = read_parts(folder, key, 0, 1, index + 2)
        sys.path[:0] = pickle.loads(prepare)  # noqa: S301  authenticated, as are those below
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
    key = bytes.fromhex(os.environ.pop(KEY_VARIABLE))  # which programs that the function starts do not need
    outcome: Any = _made(folder, key, index)
    sys.stdout.flush()
    write_outcome(folder, key, index, outcome)
    return 0 if outcome.returned else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
