"""Functions that run as jobs: `Executor().submit(train, lr=0.1).result()`, as in concurrent.futures."""

from concurrent.futures import as_completed, wait

from tgpu.futures.errors import TaskDied
from tgpu.futures.executor import Executor
from tgpu.futures.future import Future

__all__ = ["Executor", "Future", "TaskDied", "as_completed", "wait"]
