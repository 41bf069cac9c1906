"""What can become of a function that runs as a job, beside what it returns or raises."""


class TaskDied(Exception):  # noqa: N818  it says what happened, as CancelledError does not need to
    """The task that ran the function ended without a result: out of memory, over its time, killed, lost, or
    never started. `str()` tells tgpu's reason and what it last wrote to stderr."""

    def __init__(
        self, task: str, reason: str, *, cause: str | None, exit_code: int | None, stderr: str = ""
    ) -> None:
        super().__init__(task, reason)
        self.task = task
        """As in `tgpu show 42.7`."""
        self.reason = reason
        self.cause = cause
        """In one word, as the API has it, such as `out-of-memory`."""
        self.exit_code = exit_code
        self.stderr = stderr

    def __str__(self) -> str:
        told = f"task {self.task} brought no result: {self.reason}"
        return f"{told}; it last wrote:\n{self.stderr}" if self.stderr else told


class RemoteTraceback(Exception):  # noqa: N818  as that of concurrent.futures, which nobody catches
    """Where it was raised over there: the cause of an exception that came back."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'
