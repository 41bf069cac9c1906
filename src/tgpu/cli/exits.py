"""What an exit code means, and the errors that lead to one."""

from __future__ import annotations

from tgpu.client.errors import TgpuError, UnreachableError

OK = 0
FAILED = 1
USAGE = 2
UNREACHABLE = 3
NOT_FOUND = 4
NOT_PERMITTED = 5
REFUSED = 6
TIMED_OUT = 124
INTERRUPTED = 130
BROKEN_PIPE = 141
TERMINATED = 143
TIME_LIMIT = 152  # as if by SIGXCPU, so that it is not mistaken for the end of `wait --timeout`
DISK_LIMIT = 153  # as if by SIGXFSZ

MEANINGS = """\
exit codes:
  0  done                            4  no such job, node, tenant or token
  1  a job failed, or another error  5  not permitted
  2  wrong usage                     6  refused: quota, never fits, or conflict
  3  the server cannot be reached    124  the time given to `wait` is over
`tgpu run` and `tgpu wait` end with the job's own exit code: 128+n if signal n killed it, 130 if it was
cancelled, 152 if it ran into its time limit, 153 if it used too much disk space, 126 or 127 if it could not
be started.
"""

_BY_STATUS = {
    400: USAGE,
    401: NOT_PERMITTED,
    403: NOT_PERMITTED,
    404: NOT_FOUND,
    409: REFUSED,
    410: NOT_FOUND,
    412: REFUSED,
    413: REFUSED,
    422: REFUSED,
    429: REFUSED,
    503: UNREACHABLE,
    507: UNREACHABLE,
}


class CommandError(Exception):
    """An error of one line, and the code to end with."""

    def __init__(self, text: str, code: int = FAILED) -> None:
        super().__init__(text)
        self.code = code


class UsageError(CommandError):
    """What was typed cannot be meant; the text says what would be right."""

    def __init__(self, text: str) -> None:
        super().__init__(text, USAGE)


def words_of(error: TgpuError) -> str:
    """The server's own words, but where a person at a command line has an easier way."""
    if error.status == 401:  # noqa: PLR2004
        if str(error).startswith("this token"):
            return f"{error} with `tgpu token create` on the server's machine, and set TGPU_TOKEN to it"
        if str(error.problem.get("type", "")).endswith(":job-key"):  # which nobody makes by a command
            return str(error)
        return "the server wants a token: set TGPU_TOKEN; `tgpu token create` on its machine makes one"
    words = str(error)
    for path in ("tenants", "nodes", "windows"):
        words = words.replace(f"GET /{path} lists", f"`tgpu {path}` lists")
    return words


def code_of(error: TgpuError) -> int:
    if str(error.problem.get("type", "")).endswith(":invalid-field"):
        return USAGE
    return UNREACHABLE if isinstance(error, UnreachableError) else _BY_STATUS.get(error.status, FAILED)
