"""tgpu: a multi-user job scheduler for GPUs and ML work.

For programs: `Client` and `AsyncClient` speak to a server, `Executor` runs functions as jobs, `checkpointed`
is for what runs as a job.
"""

from tgpu.checkpoint import checkpointed

TYPE_CHECKING = False  # `typing` costs 6 ms of every start; type checkers read this name just as well
if TYPE_CHECKING:
    from tgpu.aio import AsyncClient
    from tgpu.client import Client, TgpuError
    from tgpu.futures import Executor, TaskDied

__all__ = ["AsyncClient", "Client", "Executor", "TaskDied", "TgpuError", "__version__", "checkpointed"]
__version__ = "0.1.0"

_ELSEWHERE = {
    "AsyncClient": "tgpu.aio",
    "Client": "tgpu.client",
    "Executor": "tgpu.futures",
    "TaskDied": "tgpu.futures",
    "TgpuError": "tgpu.client",
}


if not TYPE_CHECKING:  # to a type checker every name would be there

    def __getattr__(name: str) -> object:
        """Loaded when it is asked for: the command line and every supervisor import this file, too."""
        if name not in _ELSEWHERE:
            raise AttributeError(f"module 'tgpu' has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415  only who asks pays for it

        return getattr(import_module(_ELSEWHERE[name]), name)


def __dir__() -> list[str]:
    return __all__
