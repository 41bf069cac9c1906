"""Head and body of an answer leave in one system call: what is written in one turn of the loop is joined."""

import asyncio
from typing import Any

LINGER_S = 10.0
"""After a close, for a client that has not read its answer yet; then the connection is reset."""


class OneWrite(asyncio.Transport):
    """Stands before a real transport; only what uvicorn's protocol asks of one."""

    def __init__(self, inner: asyncio.Transport) -> None:
        super().__init__()
        self._inner = inner
        self._loop = asyncio.get_running_loop()
        self._held: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(bytes(data))

    def _flush(self) -> None:
        held, self._held = self._held, []
        if held and not self._inner.is_closing():
            self._inner.write(held[0] if len(held) == 1 else b"".join(held))

    def close(self) -> None:
        self._flush()
        self._inner.close()
        if self._inner.get_write_buffer_size():
            self._loop.call_later(LINGER_S, self._inner.abort)

    def is_closing(self) -> bool:
        return self._inner.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401  as asyncio has it
        return self._inner.get_extra_info(name, default)

    def pause_reading(self) -> None:
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        self._inner.resume_reading()
