"""Tasks that are alike, as callers write them: what they have otherwise than their job says."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tgpu.domain.quantities import MAX_TASKS

Number = int | float
TaskCount = Annotated[
    int, Meta(description="How many tasks.", extra_json_schema={"minimum": 1, "maximum": MAX_TASKS})
]


class GroupAsked(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A group of tasks. A field that is left out is as the job says; `env` is added to the job's."""

    name: Annotated[
        str | UnsetType, Meta(description="By default `group-0`, `group-1` and so on.", examples=["worker"])
    ] = UNSET
    tasks: TaskCount = 1
    command: list[str] | str | UnsetType = UNSET
    env: dict[str, str] | UnsetType = UNSET
    secret_env: dict[str, str] | UnsetType = UNSET
    image: str | UnsetType | None = UNSET
    cwd: str | UnsetType = UNSET
    cpu_request: Number | UnsetType = UNSET
    mem_request_mb: Number | UnsetType = UNSET
    cpu_limit: Number | UnsetType = UNSET
    mem_limit_mb: Number | UnsetType = UNSET
    disk_request_mb: Number | UnsetType = UNSET
    gpu_request: Number | UnsetType = UNSET
    gpu_type: str | UnsetType | None = UNSET
    gpu_memory_mb: Number | UnsetType = UNSET
    exclusive: bool | UnsetType = UNSET
    generic: dict[str, Number] | UnsetType = UNSET
    pool: str | UnsetType | None = UNSET
    node_selector: dict[str, str] | UnsetType = UNSET
    node_rules: list[str] | UnsetType = UNSET
    tolerations: list[str] | UnsetType = UNSET
