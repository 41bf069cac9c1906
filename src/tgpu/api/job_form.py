"""A job as callers write it: the shape of the JSON, before anything is judged."""

from typing import Annotated, ClassVar

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from tgpu.api.group_form import GroupAsked
from tgpu.api.other_names import OTHER_NAMES
from tgpu.api.reproducible_form import ReproducibleAsked
from tgpu.domain.container import MAX_IMAGE, MAX_MOUNTS, Pull
from tgpu.domain.dialect import MAX_ANNOTATIONS, DialectName
from tgpu.domain.job import OnReturn
from tgpu.domain.label_rules import MAX_LABEL, MAX_RULES
from tgpu.domain.node_terms import MAX_TERMS
from tgpu.domain.priority import MAX_GRACE_S, PriorityClass
from tgpu.domain.quantities import (
    MAX_CPU_MILLI,
    MAX_GPU_MILLI,
    MAX_MIB,
    MAX_PRIORITY,
    MAX_SECONDS,
    MAX_TASKS,
    MILLI,
)

MAX_NAME = 200
MAX_BULK = 10_000


def _number(text: str, low: float, high: int, example: float) -> Meta:
    return Meta(
        description=text,
        examples=[example],
        extra_json_schema={"minimum": low, "maximum": high},
    )


Number = int | float
Cpus = Annotated[Number, _number("CPUs to reserve, at most 3 decimals.", 0.001, MAX_CPU_MILLI // MILLI, 2)]
Gpus = Annotated[
    Number,
    _number("GPUs to reserve: a fraction below 1, or a whole number.", 0, MAX_GPU_MILLI // MILLI, 0.5),
]
GpuMemory = Annotated[
    Number,
    _number(
        "MiB of GPU memory. With gpu_request: the least that each GPU must have. Alone: so much of one GPU, "
        "which others may share.",
        0,
        MAX_MIB,
        40960,
    ),
]
Mebibytes = Annotated[Number, _number("MiB to reserve, a whole number.", 0, MAX_MIB, 16384)]
CpuLimit = Annotated[
    Number,
    _number(
        "CPUs that it may use at most. By default cpu_request, and not less; with `exclusive` no limit.",
        0.001,
        MAX_CPU_MILLI // MILLI,
        4,
    ),
]
MemoryLimit = Annotated[
    Number,
    _number(
        "MiB that it may use at most: mem_request_mb or more. By default mem_request_mb; without that, or "
        "with `exclusive`, no limit.",
        1,
        MAX_MIB,
        32768,
    ),
]
Seconds = Annotated[Number, _number("Whole seconds.", 0, MAX_SECONDS, 3600)]


class JobAsked(ReproducibleAsked, forbid_unknown_fields=True, kw_only=True):
    """One job. Only `command` is needed."""

    LATER: ClassVar[frozenset[str]] = frozenset()
    OTHER_NAMES: ClassVar[dict[str, str]] = OTHER_NAMES
    SET_BY_SERVER: ClassVar[frozenset[str]] = frozenset(
        {
            "job_id", "status", "reason", "cause", "exit_code", "assigned_node_id", "devices", "attempts",
            "attempt_count", "events", "submitted_at", "started_at", "ended_at", "cancel_requested_by",
            "held", "suspended_by", "failure_count", "at_once",
            "held_by", "needs_met", "task_counts", "task_list", "image_digest", "starting_note",
            "last_saved_at",
        }
    )  # fmt: skip

    command: Annotated[
        list[str] | str,
        Meta(
            description="A list is run as it is, a string by the shell.",
            examples=[["python", "train.py"], "python train.py > out.txt"],
        ),
    ]
    name: Annotated[
        str | None,
        Meta(description="By default the program's name.", extra_json_schema={"maxLength": MAX_NAME}),
    ] = None
    tenant_id: Annotated[
        str | None,
        Meta(
            description="The tenant whose quota is charged; by default the user's home.", examples=["default"]
        ),
    ] = None
    user_id: Annotated[
        str | None, Meta(description="The caller; an administrator may name somebody else.")
    ] = None
    env: Annotated[
        dict[str, str], Meta(description="Environment variables.", examples=[{"EPOCHS": "10"}])
    ] = {}
    secret_env: Annotated[
        dict[str, str],
        Meta(
            description="Environment variables with secret values, by where those are found when it starts: "
            "`store:NAME` (PUT /secrets/NAME) or `file:/PATH` on the node.",
            examples=[{"HF_TOKEN": "file:/home/alice/.hf-token"}],
        ),
    ] = {}
    image: Annotated[
        str | None,
        Meta(
            description="Run it in a container of this image; then `command` may be left out, and the image "
            "says what runs.",
            extra_json_schema={"examples": [None], "maxLength": MAX_IMAGE},
        ),
    ] = None
    mounts: Annotated[
        list[str],
        Meta(
            description="Paths of the node in the container: `SOURCE:TARGET` or `SOURCE:TARGET:ro`.",
            extra_json_schema={"examples": [[]], "maxItems": MAX_MOUNTS},
        ),
    ] = []
    shm_size_mb: Annotated[
        Number | None,
        Meta(
            description="MiB of /dev/shm in the container; by default 64.",
            extra_json_schema={"examples": [None], "minimum": 1, "maximum": MAX_MIB},
        ),
    ] = None
    read_only: Annotated[
        bool, Meta(description="Nothing can be written in the container but its mounts and /tmp.")
    ] = False
    network: Annotated[
        str | None,
        Meta(
            description="The container's network, of those in `container_networks`; by default the first, "
            "and `host` for the containers of a gang, which meet there.",
            extra_json_schema={"examples": [None]},
        ),
    ] = None
    pull: Annotated[
        Pull | None,
        Meta(
            description="When the image is fetched: `always`, if it is `missing` (the default), or `never`."
        ),
    ] = None
    ignore_entrypoint: Annotated[
        bool, Meta(description="The command is run as it is, not given to the image's entry point.")
    ] = False
    container_cwd: Annotated[
        str | None,
        Meta(
            description="Where in the container it runs; by default in cwd if that is mounted, else where "
            "the image says.",
            extra_json_schema={"examples": [None]},
        ),
    ] = None
    cwd: Annotated[
        str | None, Meta(description="An absolute path; by default the user's home.", examples=["/tmp"])  # noqa: S108  an example
    ] = None
    submit_host: Annotated[
        str | None,
        Meta(
            description="The host that has this directory, unless all share it; by default the server's own "
            "for callers on its socket.",
            examples=["login1"],
            extra_json_schema={"maxLength": MAX_LABEL},
        ),
    ] = None
    cpu_request: Cpus | None = None
    mem_request_mb: Mebibytes | None = None
    cpu_limit: CpuLimit | None = None
    mem_limit_mb: MemoryLimit | None = None
    disk_request_mb: Mebibytes = 0
    gpu_request: Gpus = 0
    gpu_type: Annotated[
        str | None, Meta(description="A GPU model that will do.", examples=["NVIDIA A100-SXM4-80GB"])
    ] = None
    gpu_memory_mb: GpuMemory = 0
    exclusive: Annotated[bool, Meta(description="Take a whole node.")] = False
    generic: Annotated[
        dict[str, Number],
        Meta(
            description="Named resources of a node, or of the cluster (licences), and how many of each.",
            extra_json_schema={"examples": [{}], "maxProperties": MAX_TERMS},
        ),
    ] = {}
    pool: Annotated[
        str | None, Meta(description="Only nodes of this pool.", extra_json_schema={"maxLength": MAX_LABEL})
    ] = None
    node_selector: Annotated[
        dict[str, str],
        Meta(description="Labels that the node must have.", extra_json_schema={"examples": [{}]}),
    ] = {}
    node_rules: Annotated[
        list[str],
        Meta(
            description="What the node's labels must be like: `zone in (a, b)`, `zone notin (a)`, `zone=a`, "
            "`zone!=a`, `ssd`, `!spot`, `gpu-memory >= 40`; all of them hold.",
            extra_json_schema={"examples": [[]], "maxItems": MAX_RULES},
        ),
    ] = []
    tolerations: Annotated[
        list[str],
        Meta(
            description="Taints that it puts up with: `key`, `key=value`, or `*` for all.",
            extra_json_schema={"examples": [["spot"]], "maxItems": MAX_TERMS},
        ),
    ] = []
    priority_class: Annotated[
        PriorityClass | None, Meta(description="By default as the tenant says, mostly `default`.")
    ] = None
    priority: Annotated[
        int,
        Meta(
            description="Higher first, inside a class. Users may go up to the setting max_priority.",
            extra_json_schema={"minimum": -MAX_PRIORITY, "maximum": MAX_PRIORITY},
        ),
    ] = 0
    time_limit_s: Seconds | None = None
    max_wait_s: Seconds | None = None
    requeue: Annotated[bool, Meta(description="Try again if its machine dies or it gives way.")] = True
    once: Annotated[
        bool,
        Meta(
            description="At most one live attempt, ever: frozen on a node that is cut off from all servers."
        ),
    ] = False
    pty: Annotated[
        bool,
        Meta(description="Give it a terminal of its own, to attach to; else its stdin is /dev/null."),
    ] = False
    shared_tmp: Annotated[
        bool,
        Meta(
            description="Use the node's own /tmp and /dev/shm instead of private ones, where the setting "
            "`shared_tmp` allows it."
        ),
    ] = False
    nodes: Annotated[
        int | None,
        Meta(
            description="On so many nodes, which start together: one task on each, unless tasks or "
            "tasks_per_node say otherwise.",
            extra_json_schema={"minimum": 1, "maximum": MAX_TASKS},
        ),
    ] = None
    tasks: Annotated[
        int | None,
        Meta(
            description="How many tasks there are in all, which start together.",
            extra_json_schema={"minimum": 1, "maximum": MAX_TASKS},
        ),
    ] = None
    tasks_per_node: Annotated[
        int | None,
        Meta(
            description="With nodes: so many on each, unless tasks says fewer; else at most so many on one.",
            extra_json_schema={"minimum": 1, "maximum": MAX_TASKS},
        ),
    ] = None
    gpus_per_node: Annotated[
        int | None,
        Meta(
            description="With nodes, in place of gpu_request: GPUs on each node, shared by its tasks.",
            extra_json_schema={"minimum": 1, "maximum": MAX_GPU_MILLI // MILLI},
        ),
    ] = None
    topology: Annotated[
        str | None,
        Meta(
            description="A label, such as `rack`, whose value must be the same on all its nodes.",
            extra_json_schema={"maxLength": MAX_LABEL},
        ),
    ] = None
    groups: Annotated[
        list[GroupAsked] | None,
        Meta(description="Tasks that are not all alike: what each group has otherwise than the job says."),
    ] = None
    fail_together: Annotated[
        bool,
        Meta(
            description="Whether the other tasks are stopped once one fails, and all start anew if one is "
            "lost; else only that one is replaced."
        ),
    ] = True
    on_return: Annotated[
        OnReturn,
        Meta(
            description="When a node that was lost is heard again: keep the attempt that has run longest, or "
            "the one that replaced it."
        ),
    ] = OnReturn.LONGEST
    grace_s: Annotated[
        Number | None,
        _number("Seconds from SIGTERM (or stop_signal) to SIGKILL, up to `max_grace`.", 0, MAX_GRACE_S, 60),
    ] = None
    stop_signal: Annotated[
        str | int | None,
        Meta(
            description="What its processes get instead of SIGTERM when it is stopped: a name or a number.",
            extra_json_schema={"examples": ["USR1"]},
        ),
    ] = None
    warn_signal: Annotated[
        str | int | None,
        Meta(
            description="A signal for those of its processes that handle it, once, before its time limit.",
            extra_json_schema={"examples": [None]},
        ),
    ] = None
    warn_s: Annotated[
        Number | None,
        Meta(
            description="How many seconds before; by default 60.",
            extra_json_schema={"examples": [None], "minimum": 1, "maximum": MAX_SECONDS},
        ),
    ] = None
    warn_main: Annotated[
        bool, Meta(description="With warn_signal: only to its main process, instead of all of them.")
    ] = False
    dialect: Annotated[
        DialectName | None,
        Meta(description="The language that it was written in: its tasks find the variables of that, too."),
    ] = None
    annotations: Annotated[
        dict[str, str],
        Meta(
            description="With dialect: what was said there that has no word of its own here.",
            extra_json_schema={"examples": [{}], "maxProperties": MAX_ANNOTATIONS},
        ),
    ] = {}


class Submission(JobAsked, kw_only=True):
    """What POST /jobs reads in one go: a job, or a sign that many follow."""

    UNSPOKEN: ClassVar[frozenset[str]] = frozenset({"jobs"})
    """No field of a job: not named among those there are."""
    command: list[str] | str | UnsetType = UNSET  # type: ignore[assignment]  # missing is judged later, with `jobs` in view
    jobs: list[Raw] | UnsetType = UNSET


class ManyJobs(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Many jobs at once: all of them are submitted, or none."""

    jobs: Annotated[list[JobAsked], Meta(min_length=1, max_length=MAX_BULK)]


class ManyRaw(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The same, unread: each is read alone so that a mistake can be told with its index."""

    jobs: list[Raw]
