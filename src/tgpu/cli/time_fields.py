"""The flags about time and other jobs."""

from __future__ import annotations

TIME_FLAGS = (
    ("--begin", "begin", "MOMENT", "not before, such as 16:00, tomorrow 2am, now+1hour or 2026-01-20T12:34"),
    ("--deadline", "deadline", "MOMENT", "to be over by then: else it has failed"),
)
TIME_REPEATED = (
    (
        "--after",
        "after",
        "JOBS",
        "start once job 41 (or: last) has completed; or as --dependency; repeatable",
    ),
    (
        "--dependency",
        "dependency",
        "KIND:JOB[:JOB]",
        "afterok:41:42, afternotok:41, afterany:41, aftercorr:41 or singleton, several with commas",
    ),
)
TIME_SWITCHES = (
    ("--hold", "hold", "do not start it until `tgpu release`"),
    ("--requeue-on-timeout", "requeue_on_timeout", "let it wait again when it runs into its time limit"),
)
