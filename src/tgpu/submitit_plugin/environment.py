"""Inside a task that submitit runs: who it is, and what it does when it is stopped or its time runs out."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import ClassVar

from submitit.core.job_environment import JobEnvironment, SignalHandler
from submitit.core.logger import get_logger
from submitit.core.utils import DelayedSubmission, JobPaths

ONCE_MORE = 144
"""The exit code of a task that has saved itself and wants to go on in a new attempt."""


class TgpuJobEnvironment(JobEnvironment):
    _env: ClassVar[dict[str, str]] = {
        "job_id": "TGPU_JOB_ID",
        "num_tasks": "WORLD_SIZE",
        "num_nodes": "NNODES",
        "node": "NODE_RANK",
        "global_rank": "RANK",
        "local_rank": "LOCAL_RANK",
        "array_task_id": "TGPU_ARRAY_INDEX",
    }

    @property
    def array_job_id(self) -> str | None:
        return self.raw_job_id if "TGPU_ARRAY_INDEX" in os.environ else None

    @property
    def hostnames(self) -> Sequence[str]:
        listed = os.environ.get("TGPU_NODELIST")
        return listed.split(",") if listed else [self.hostname]

    @property
    def is_gang(self) -> bool:
        return "TGPU_NODELIST" in os.environ

    def _handle_signals(self, paths: JobPaths, submission: DelayedSubmission) -> None:
        """Stopped, it saves its state and ends: whether it starts anew is for tgpu to say, who knows whether
        it was preempted or cancelled. Before its time limit it asks for a new attempt itself."""
        handler = SignalHandler(self, paths, submission)
        signal.signal(signal.SIGTERM, handler.checkpoint_and_exit)
        signal.signal(self._usr_sig(), handler.checkpoint_and_try_requeue)

    def _requeue(self, countdown: int) -> None:
        get_logger().info(f"Job {self.job_id} goes on in a new attempt ({countdown} remaining timeouts)")
        if self.num_tasks == 1:
            sys.exit(ONCE_MORE)
        while True:  # tasks that started together are started anew together, at their time limit
            time.sleep(60)
