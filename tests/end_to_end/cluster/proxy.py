"""A small TCP proxy between agents and a server, which can be made as bad as a network can be."""

import asyncio
import contextlib
import socket
import threading
from dataclasses import dataclass, field

_CHUNK = 65536
_HEAD = 65536
"""So much of what a client says is looked through for the name of a node."""


@dataclass(slots=True, eq=False)
class _Pipe:
    """One connection through the proxy."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    head: bytes = b""
    """The first bytes that the client said: an agent's hello names its node."""
    silent: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while bytes may pass."""
    done: bool = False
    """The server was told that the client has nothing more to say."""


class Proxy:
    """Runs in a thread of its own; every method may be called from the test's."""

    def __init__(self, target_port: int) -> None:
        self._target = target_port
        self._loop = asyncio.new_event_loop()
        self._pipes: set[_Pipe] = set()
        self._cut: set[bytes] = set()
        self._deaf = False
        self._delay_s = 0.0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut_off(self, node: str) -> None:
        """Nothing of this node passes any more, and nobody is told: its packets vanish."""
        self._call(self._cut.add, node.encode())
        self._call(self._apply)

    def reconnect(self, node: str) -> None:
        self._call(self._cut.discard, node.encode())
        self._call(self._apply)

    def go_deaf(self, *, deaf: bool = True) -> None:
        """Nothing of anybody passes: this server is cut off from everyone."""
        self._deaf = deaf
        self._call(self._apply)

    def delay(self, seconds: float) -> None:
        """Every piece of a stream comes so much later."""
        self._delay_s = seconds

    def reset(self) -> None:
        """Every connection breaks at once, on both sides."""
        self._call(self._abort_all)

    def half_close(self) -> None:
        """What clients say arrives no more: the server is told that they are done, and may still speak."""
        self._call(self._half_close_all)

    def close(self) -> None:
        self._call(self._abort_all)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)

    def _call(self, what, *arguments) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN002
        done = threading.Event()

        def run() -> None:
            what(*arguments)
            done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(60)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(asyncio.start_server(self._serve, sock=self._listener))
        self._loop.run_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        pipe = _Pipe(writer, to_server)
        self._pipes.add(pipe)
        self._apply()
        try:
            await asyncio.gather(
                self._pump(pipe, reader, to_server, is_client=True),
                self._pump(pipe, from_server, writer, is_client=False),
            )
        finally:
            self._pipes.discard(pipe)
            for end in (writer, to_server):
                end.close()

    async def _pump(
        self, pipe: _Pipe, source: asyncio.StreamReader, to: asyncio.StreamWriter, *, is_client: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(_CHUNK):
                if is_client and len(pipe.head) < _HEAD:
                    pipe.head += data
                    self._apply()
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                await pipe.silent.wait()
                if not (is_client and pipe.done):
                    to.write(data)
                    await to.drain()
        with contextlib.suppress(OSError):
            await pipe.silent.wait()
            if not (is_client and pipe.done):
                to.write_eof()

    def _apply(self) -> None:
        for pipe in self._pipes:
            if self._deaf or any(name in pipe.head for name in self._cut):
                pipe.silent.clear()
            else:
                pipe.silent.set()

    def _abort_all(self) -> None:
        for pipe in list(self._pipes):
            pipe.client.transport.abort()
            pipe.server.transport.abort()

    def _half_close_all(self) -> None:
        for pipe in list(self._pipes):
            pipe.done = True
            with contextlib.suppress(OSError):
                pipe.server.write_eof()
