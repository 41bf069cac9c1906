"""What only the task's own user may see, seen as that user: paths to mount, and files with secrets.

The agent of a cluster is root. A path that it opened itself could lead where the user may not go, and one
that was looked at first and used later could be another one by then. So a process of the user's opens the
paths, and the agent gets the descriptors: they stay what they are, whatever becomes of the names.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tgpu.runner.task import ROOT, Account, Refusal, reveal

_PATIENCE_S = 20.0
_ANSWER_MAX = 8 << 20
_MOST_PATHS = 200
_OPEN = os.O_PATH | os.O_CLOEXEC


@dataclass(slots=True)
class Seen:
    """`descriptors` are to be closed by whoever has this."""

    descriptors: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    """Paths that the user cannot open, and why."""
    secrets: dict[str, str] = field(default_factory=dict)

    def close(self) -> None:
        for descriptor in self.descriptors.values():
            os.close(descriptor)
        self.descriptors.clear()


def see(account: Account, paths: Sequence[str], secret_env: Mapping[str, str]) -> Seen:
    """Blocks. Raises Refusal if a secret cannot be read."""
    if account.uid == os.geteuid():
        return _look(paths, secret_env)
    if os.geteuid() != ROOT:
        raise Refusal(f"this agent is not root, so it cannot run a job of user {account.name!r}")
    if not paths and not secret_env:  # a process takes longer to start than all the rest
        return Seen()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(_PATIENCE_S)
        question = json.dumps([account.name, list(paths), dict(secret_env)])
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-m", __name__, question],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},  # the agent's own is not for a process of the user
            )
        except OSError as error:
            raise Refusal(f"cannot start a process: {error.strerror}") from error
        theirs.close()
        try:
            return _received(ours)
        except (OSError, ValueError):  # a dead network drive, most likely
            raise Refusal(f"its mounts could not be looked at as user {account.name!r}") from None
        finally:
            process.kill()
            process.wait()


def _look(paths: Sequence[str], secret_env: Mapping[str, str]) -> Seen:
    seen = Seen()
    reveal(seen.secrets, dict(secret_env))
    for path in paths:
        try:
            seen.descriptors[path] = os.open(path, _OPEN)
        except OSError as error:
            seen.refused[path] = error.strerror or str(error)
    return seen


def _received(ours: socket.socket) -> Seen:
    data, descriptors, _, _ = socket.recv_fds(ours, 1 << 16, _MOST_PATHS)
    while not data.endswith(b"\n") and len(data) < _ANSWER_MAX:
        more = ours.recv(1 << 16)
        if not more:
            break
        data += more
    answer = json.loads(data)
    if "refusal" in answer:
        raise Refusal(answer["refusal"])
    return Seen(dict(zip(answer["opened"], descriptors, strict=True)), answer["refused"], answer["secrets"])


def _main() -> None:
    """Becomes the user, and answers on standard input, which is a socket."""
    name, paths, secret_env = json.loads(sys.argv[1])
    with socket.socket(fileno=0) as theirs:
        try:
            Account(name).assume()
            seen = _look(paths, secret_env)
        except Refusal as refusal:
            theirs.sendall(json.dumps({"refusal": str(refusal)}).encode() + b"\n")
            return
        answer = {"opened": list(seen.descriptors), "refused": seen.refused, "secrets": seen.secrets}
        first, rest = json.dumps(answer).encode()[:1], json.dumps(answer).encode()[1:] + b"\n"
        socket.send_fds(theirs, [first], list(seen.descriptors.values()))
        theirs.sendall(rest)


if __name__ == "__main__":
    _main()
