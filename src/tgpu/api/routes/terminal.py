"""GET /jobs/{job_id}/terminal: where a WebSocket leads into a running job. This is its plain side."""

from starlette.responses import Response

from tgpu.api.endpoint import Answer, Call, Endpoint, Param
from tgpu.api.needs import ENTER_JOB
from tgpu.api.problems import ProblemError
from tgpu.api.routes.params import JOB_ID


async def without_websocket(_call: Call) -> Response:
    raise ProblemError(
        426,
        "upgrade-required",
        "this is a WebSocket: ask for the upgrade, or use `tgpu exec` and `tgpu attach`",
        headers={"Upgrade": "websocket", "Connection": "Upgrade"},
    )


TASK = Param("task", "Which task of the job.", {"type": "integer", "minimum": 0}, 0)
ATTEMPT = Param(
    "attempt", "Which attempt of it; by default the one that runs.", {"type": "integer", "minimum": 1}, 1
)
ENDPOINTS = (
    Endpoint(
        "GET",
        "/jobs/{job_id}/terminal",
        without_websocket,
        ENTER_JOB,
        "jobs",
        "Go inside a running job",
        "A WebSocket. The first message is text, an object with `command` (a program and its arguments, to "
        "be run beside the task as its user, with its environment, limits and devices; without it, the "
        "job's own terminal), `tty`, `rows`, `cols` and `term`. The answer is `{opened: …}` or `{refused: "
        "…}`, a problem. Then binary messages are input; text ones are `{resize: [rows, cols]}`, `{taken: "
        "bytes}` for output that was dealt with, and `{end: true}` after the last input. From the server, "
        "binary messages are output behind one byte, 1 for stdout and 2 for stderr; text ones are `{taken: "
        "bytes}` for input, and at last `{over: {exit_code, detail, lost}}`. At most 262,144 bytes may be "
        "under way either way that were not yet taken. Only the job's user and administrators of its tenant "
        "come in, and each time is in the audit log.",
        {101: Answer("The connection is a WebSocket from now on.")},
        errors=(404, 409, 426),
        params=(JOB_ID, TASK, ATTEMPT),
    ),
)
