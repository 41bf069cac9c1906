"""Speaks to a server; light enough for a command line."""

from tgpu.client.client import Client
from tgpu.client.errors import DroppedError, TgpuError, UnreachableError, WaitTimeoutError

__all__ = ["Client", "DroppedError", "TgpuError", "UnreachableError", "WaitTimeoutError"]
