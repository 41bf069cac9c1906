"""How a job that waits is to be changed, as callers write it."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tgpu.domain.index_set import MAX_INDICES
from tgpu.domain.priority import PriorityClass

Number = int | float


class EditAsked(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is left out stays as it is. What may be absent is taken away by null."""

    name: str | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    priority_class: PriorityClass | UnsetType = UNSET
    time_limit_s: Number | UnsetType | None = UNSET
    max_wait_s: Number | UnsetType | None = UNSET
    begin_at: Annotated[
        str | UnsetType | None,
        Meta(description="Not to be started before.", extra_json_schema={"examples": [None]}),
    ] = UNSET
    deadline_at: Annotated[
        str | UnsetType | None,
        Meta(description="To be over by then.", extra_json_schema={"examples": [None]}),
    ] = UNSET
    requeue_on_timeout: bool | UnsetType = UNSET
    cpu_request: Number | UnsetType = UNSET
    mem_request_mb: Number | UnsetType = UNSET
    cpu_limit: Number | UnsetType | None = UNSET
    mem_limit_mb: Number | UnsetType | None = UNSET
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
    at_once: Annotated[
        int | UnsetType | None,
        Meta(
            description="Of a series: at most so many of its tasks are live at any moment; also while some "
            "of it runs. Nothing that runs is stopped; what waits begins once enough of that has ended.",
            extra_json_schema={"examples": [5], "minimum": 1, "maximum": MAX_INDICES},
        ),
    ] = UNSET


REQUEST_FIELDS = {
    "cpu_request": "cpu_milli",
    "mem_request_mb": "memory_mib",
    "disk_request_mb": "disk_mib",
    "gpu_request": "gpu_milli",
    "gpu_type": "gpu_type",
    "gpu_memory_mb": "gpu_memory_mib",
    "exclusive": "exclusive",
    "generic": "generic",
    "pool": "pool",
    "node_selector": "node_selector",
    "node_rules": "node_rules",
    "tolerations": "tolerations",
}
"""What each is called in a request."""
LIMIT_FIELDS = ("cpu_limit", "mem_limit_mb")
