"""Disk usage of users' folders on this node, measured by a child process with each user's rights."""

import asyncio
import json
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tgpu.runner.disk_usage import Usage

WALK_S = 60.0
"""How long one measurement may take for all of its folders; what was not measured by then is not known."""
_PATIENCE_S = 15.0
"""Beyond that: the child looks at its clock itself, unless a drive does not answer."""
_MOST_OUTPUT = 1 << 24
_ROOT = Path(__file__).parents[2]
_CODE = "import sys; sys.path.append(sys.argv[1]); from tgpu.runner.disk_usage import main; main()"


class OwnedFolder(NamedTuple):
    """A folder that only this process's user can replace, and the user that may write in it."""

    path: str
    uid: int
    gid: int


class DiskMeter:
    """One measurement at a time: trees of users cost this node no more than one process."""

    def __init__(self, walk_s: float = WALK_S) -> None:
        self._walk_s = walk_s
        self._turn = asyncio.Lock()

    async def measure(self, folders: Sequence[OwnedFolder]) -> dict[str, Usage]:
        """By path; without those that could not be measured."""
        if not folders:
            return {}
        async with self._turn:
            answer = await self._ask(_question(folders, self._walk_s))
        found: dict[str, Usage] = {}
        for line in answer.splitlines():
            with suppress(ValueError, TypeError, IndexError):  # it was ended while it wrote
                number, *fields = json.loads(line)
                found[folders[number].path] = Usage(*fields)
        return found

    async def _ask(self, question: bytes) -> bytes:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            "-c",
            _CODE,
            str(_ROOT),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
            limit=_MOST_OUTPUT,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        lines: list[bytes] = []
        try:
            async with asyncio.timeout(self._walk_s + _PATIENCE_S):
                process.stdin.write(question)
                with suppress(BrokenPipeError, ConnectionResetError):
                    await process.stdin.drain()
                process.stdin.close()
                while line := await process.stdout.readline():
                    lines.append(line)
        except TimeoutError:  # a drive that does not answer; what was measured before counts
            pass
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        return b"".join(lines)


def _question(folders: Sequence[OwnedFolder], walk_s: float) -> bytes:
    by_user: defaultdict[tuple[int, int], list[tuple[int, str]]] = defaultdict(list)
    for number, folder in enumerate(folders):
        by_user[folder.uid, folder.gid].append((number, folder.path))
    users = [(uid, gid, own) for (uid, gid), own in by_user.items()]
    return json.dumps([walk_s, users]).encode()
