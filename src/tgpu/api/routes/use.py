"""GET /jobs/{job_id}/use: what a task did with what it was given, from its start to now."""

from starlette.responses import Response

from tgpu.api.endpoint import Answer, Call, Endpoint, Param
from tgpu.api.log_stream import LogStream
from tgpu.api.needs import READ_OUTPUT
from tgpu.api.problems import not_found
from tgpu.api.reply import json_reply
from tgpu.api.routes.logs import attempt_asked_for
from tgpu.api.routes.params import JOB_ID
from tgpu.api.use_view import CourseOut, course_out
from tgpu.protocol.use import STREAM, unpacked

_MOST_BYTES = 1 << 20


async def read_use(call: Call) -> Response:
    task_id, attempt = await attempt_asked_for(call)
    file = None
    if attempt is not None:
        stream = LogStream(call.services, task_id, STREAM, follow=False)
        file = unpacked((await stream.read(attempt, 0, _MOST_BYTES)).data)
    if attempt is None or file is None:
        raise not_found(
            f"nothing was measured of job {task_id if task_id.task_index else task_id.job_id}: it has not "
            "run yet, or was over within a second, or it is so long ago that its output was removed"
        )
    return json_reply(course_out(attempt, file))


ENDPOINTS = (
    Endpoint(
        "GET",
        "/jobs/{job_id}/use",
        read_use,
        READ_OUTPUT,
        "jobs",
        "Show what a job uses",
        "CPUs, memory, GPUs, disk and network of one task from its start to now or to its end, in at most "
        "360 stretches of time: means with their largest values beside them (`…_peak`), and of disk and "
        "network what came together. It is kept on the node beside the output, and as long.",
        {
            200: Answer(
                "The course of its use.",
                CourseOut,
                {
                    "attempt_id": "42.0.1",
                    "status": "running",
                    "node_id": "ws1",
                    "started_at": "2026-01-31T14:05:00.000Z",
                    "measured_at": "2026-01-31T14:05:11.000Z",
                    "step_s": 5.0,
                    "cpu_time_s": 20.6,
                    "gpu_busy_s": 9.1,
                    "throttled_percent": 0,
                    "latest": {"seconds": 5.0, "cpu": 1.98, "memory_mb": 2110.0, "gpu_percent": 91.0},
                    "columns": {
                        "seconds": [6.0, 5.0],
                        "cpu": [1.783, 1.98],
                        "cpu_peak": [1.8, 1.98],
                        "memory_mb": [1804.5, 2110.0],
                        "memory_mb_peak": [1900.0, 2110.0],
                        "gpu_percent": [None, 91.0],
                        "gpu_percent_peak": [None, 91.0],
                        "disk_read_mb": [512.0, 3.25],
                        "disk_written_mb": [0.0, 0.0],
                    },
                },
            )
        },
        errors=(404,),
        params=(
            JOB_ID,
            Param("task", "Of which task.", {"type": "integer", "minimum": 0}, 0),
            Param("attempt", "Which attempt; by default the latest.", {"type": "integer", "minimum": 1}, 1),
        ),
    ),
)
