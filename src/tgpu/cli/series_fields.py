"""The flags about many tasks and their failures."""

from __future__ import annotations

SERIES_FLAGS = (
    ("--array", "array", "LIST[%N]", "a task for each index, such as 0-999%%50: N of them at once"),
    ("--completions", "completions", "N", "so many tasks must succeed"),
    ("--parallelism", "parallelism", "N", "so many at once (1); without --completions they share a queue"),
    ("--completion-mode", "completion_mode", "MODE", "Indexed: each has JOB_COMPLETION_INDEX; or NonIndexed"),
    ("--retries", "retries", "N", "try a failure again so often, each index of an array by itself"),
    ("--backoff-limit", "backoff_limit", "N", "the same of all tasks together; then the job has failed"),
    ("--backoff-limit-per-index", "backoff_limit_per_index", "N", "the same of each index"),
    ("--max-failures", "max_failures", "N", "stop the others once more than N tasks have failed"),
    ("--active-deadline", "active_deadline", "DURATION", "so long after its submission it must be over"),
    ("--ttl-after-finished", "ttl_after_finished", "DURATION", "forget it so long after its end"),
)
SERIES_SWITCHES = (("--suspend", "suspend", "start nothing of it until `tgpu resume`"),)
