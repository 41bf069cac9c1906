"""On the first node of a job on several: brings together `srun`, which is here, and the nodes' keepers."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import os
import signal
import socket
import struct

from tgpu.cli.slurm import step_wire

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from typing import Any

    Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_PATIENCE_S = 60.0
_LOOK_S = 0.2
_PIECE = 1 << 16


def main() -> None:
    """Until the script and its steps have ended, and not when they are told to: they may have something to
    save."""
    script = os.getppid()
    signal.signal(signal.SIGTERM, lambda *_: None)
    asyncio.run(_serve(Desk(step_wire.key_of(os.environ)), script))


async def _serve(desk: Desk, script: int) -> None:
    serving = asyncio.create_task(desk.serve())
    while (os.getppid() == script or desk.steps) and not serving.done():
        await asyncio.wait([serving], timeout=_LOOK_S)
    if serving.done():
        serving.result()
    os._exit(0)  # nobody is left whom it could matter to


class Desk:
    def __init__(self, key: bytes) -> None:
        self._key = key
        self._keepers: dict[int, asyncio.StreamWriter] = {}
        self._here = asyncio.Condition()
        self._awaited: dict[str, asyncio.Future[Ends]] = {}
        self.steps = 0
        """How many talk to a node now."""

    async def serve(self) -> None:
        port = int(os.environ["MASTER_PORT"])
        keepers = await asyncio.start_server(self._keeper, None, port)
        own = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        own.bind(step_wire.desk_name(os.environ))
        steps = await asyncio.start_unix_server(self._step, sock=own)
        async with keepers, steps:
            await asyncio.gather(keepers.serve_forever(), steps.serve_forever())

    async def _keeper(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A node says that it is there; or it comes for one step that it was called for."""
        try:
            hello = await asyncio.wait_for(self._hello(reader, writer), _PATIENCE_S)
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            writer.close()
            return
        if "ticket" in hello:
            waiting = self._awaited.pop(str(hello["ticket"]), None)
            if waiting is None or waiting.done():
                writer.close()
            else:
                waiting.set_result((reader, writer))
            return
        async with self._here:
            self._keepers[int(hello["node"])] = writer
            self._here.notify_all()

    async def _hello(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> dict[str, Any]:
        """Raises ValueError of whoever does not know the key."""
        nonce = os.urandom(16).hex()
        writer.write(f"{nonce}\n".encode())
        own, proof, text = (await reader.readuntil(b"\n")).decode().rstrip("\n").split(" ", 2)
        if not hmac.compare_digest(proof, step_wire.said_by_caller(nonce, own, text, self._key)):
            raise ValueError("not one of the job's nodes")
        writer.write(f"{step_wire.said_by_desk(nonce, own, text, self._key)}\n".encode())
        hello: dict[str, Any] = json.loads(text)
        return hello

    async def _step(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """`srun` wants to talk to one of the nodes: both are heard by each other from then on."""
        self.steps += 1
        try:
            sock = writer.get_extra_info("socket")
            peer = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            if struct.unpack("3i", peer)[1] == os.getuid():
                node = int(json.loads(await reader.readuntil(b"\n"))["node"])
                ends = await asyncio.wait_for(self._called(node), _PATIENCE_S)
                await asyncio.gather(_copied(reader, ends[1]), _copied(ends[0], writer))
        except (OSError, ValueError, KeyError, TimeoutError, asyncio.IncompleteReadError):
            pass  # `srun` hears that nobody is there
        writer.close()
        self.steps -= 1

    async def _called(self, node: int) -> Ends:
        async with self._here:
            await self._here.wait_for(lambda: node in self._keepers)
        ticket = os.urandom(16).hex()
        waiting: asyncio.Future[Ends] = asyncio.get_running_loop().create_future()
        self._awaited[ticket] = waiting
        self._keepers[node].write(json.dumps({"open": ticket}).encode() + b"\n")
        return await waiting


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
    writer.close()
