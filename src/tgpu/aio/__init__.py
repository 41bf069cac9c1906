"""The client for programs that run on asyncio: the same calls, made without holding up the loop."""

from tgpu.aio.client import AsyncClient

__all__ = ["AsyncClient"]
