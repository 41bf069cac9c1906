"""Two Unix accounts of the tests' own, and what is done as one of them."""

import codecs
import contextlib
import fcntl
import json
import os
import pwd
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tgpu.client import TgpuError

# Tests run side by side, and accounts belong to the whole machine: each worker has its own two.
USERS = tuple(f"tgpu-{name}-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}" for name in ("ann", "bob"))
_FAILED = "failed"


@contextlib.contextmanager
def accounts() -> Iterator[None]:
    """They are there; ann is in an extra group."""
    with _locked():
        for name in USERS:
            subprocess.run(["userdel", "--remove", name], check=False, capture_output=True)
            subprocess.run(["useradd", "--create-home", "--shell", "/bin/sh", name], check=True)
        subprocess.run(["usermod", "--append", "--groups", "audio", USERS[0]], check=True)
    yield
    with _locked():
        for name in USERS:
            subprocess.run(["userdel", "--remove", name], check=False, capture_output=True)


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """useradd gives up at once when somebody else is changing the accounts."""
    with Path("/tmp/tgpu-test-accounts.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def as_user(name: str, work: Callable[[], Any]) -> Any:
    """In a child that has become that user for good, as a login would. What `work` needs must be loaded: the
    interpreter may lie in a folder that only root can read."""
    codecs.lookup("ascii")
    account = pwd.getpwnam(name)
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.initgroups(name, account.pw_gid)
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
            try:
                answer = work()
            except TgpuError as error:
                answer = {"refused": error.status, "detail": str(error)}
            except BaseException:  # noqa: BLE001  the test shows it
                answer = {_FAILED: traceback.format_exc()}
            os.write(send, json.dumps(answer).encode())
        finally:
            sys.stdout.flush()
            os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    answer = json.loads(text)
    assert not (isinstance(answer, dict) and _FAILED in answer), answer[_FAILED]
    return answer
