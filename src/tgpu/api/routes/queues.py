"""What waits, by tenant and priority class, and why the first of each does."""

from collections.abc import Collection, Mapping

import msgspec
from starlette.responses import Response

from tgpu.api.access import known_jobs, sees_tenant
from tgpu.api.endpoint import Answer, Call, Endpoint
from tgpu.api.needs import LOOK
from tgpu.api.reply import json_reply
from tgpu.api.why_view import ReasonOut, jobs_named, reason_out
from tgpu.domain.priority import PriorityClass
from tgpu.domain.tenant import Tenant
from tgpu.domain.views import QueueView


class QueueOut(msgspec.Struct, kw_only=True):
    """What waits of one tenant and class."""

    queue_id: str
    tenant_id: str
    priority_class: PriorityClass
    depth: int
    head_job_id: int | None
    head_reasons: list[ReasonOut]
    """Why the first of them waits."""
    weight: int
    """Of the tenant, beside its siblings."""
    weighted_share: float
    dominant_share: float


class QueueList(msgspec.Struct, kw_only=True):
    """Every queue in which something waits, of the tenants that the caller may see."""

    queues: list[QueueOut]


def _queue_out(view: QueueView, known: Collection[int], tenants: Mapping[str, Tenant]) -> QueueOut:
    tenant = tenants.get(view.tenant_id)  # None if it was made a moment ago, by another server
    return QueueOut(
        queue_id=f"{view.tenant_id}:{view.priority_class}",
        tenant_id=view.tenant_id,
        priority_class=view.priority_class,
        depth=view.depth,
        head_job_id=view.head_job_id,
        head_reasons=[reason_out(reason, known) for reason in view.head_reasons],
        weight=tenant.weight if tenant else 1,
        weighted_share=view.weighted_share,
        dominant_share=view.dominant_share,
    )


async def list_queues(call: Call) -> Response:
    views, settings = await call.services.live.queues(), call.services.settings
    views = [view for view in views if sees_tenant(view.tenant_id, call.caller, settings)]
    known = await known_jobs(call, {job_id for view in views for job_id in jobs_named(view.head_reasons)})
    tenants = (await call.book.pages()).tenants
    return json_reply(QueueList(queues=[_queue_out(view, known, tenants) for view in views]))


ENDPOINTS = (
    Endpoint(
        "GET", "/queues", list_queues, LOOK, "nodes",
        "List queues", "What waits, by tenant and priority class, and why the first of each does.",
        {
            200: Answer(
                "The queues.",
                QueueList,
                {
                    "queues": [
                        {
                            "queue_id": "default:high",
                            "tenant_id": "default",
                            "priority_class": "high",
                            "depth": 3,
                            "head_job_id": 42,
                            "head_reasons": [
                                {"code": "gpus", "text": "needs 2 GPUs; ws1 has 1 of 8 GPUs free", "data": {}}
                            ],
                            "weight": 2,
                            "weighted_share": 0.25,
                            "dominant_share": 0.5,
                        }
                    ]
                },
            )
        },
    ),
)  # fmt: skip
