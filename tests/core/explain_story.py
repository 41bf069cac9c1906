"""Answers in few words: what is told to whom, whole."""

from typing import Any

from tests.core.core_story import DRF, asks, node, picture_of, task
from tgpu.core.explain import explain
from tgpu.core.picture import Picture
from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import Limits
from tgpu.domain.tenant import Tenant
from tgpu.domain.views import Advice, Holder, Reason, Why


def why(picture: Picture, job_id: int, index: int = 0) -> Why:
    answer = explain(picture, picture.policy, TaskId(job_id, index))
    assert answer is not None
    return answer


def waits(job_id: int, *reasons: Reason, **more: Any) -> Why:
    """First in line, and without advice, unless something else is said."""
    facts: dict[str, Any] = {"position": 1} | more
    return Why(job_id, True, f"waits: {reasons[0].text}", reasons, **facts)


def holder(job_id: int, gpus: float = 0, devices: tuple[int, ...] = (), **more: Any) -> Holder:
    facts: dict[str, Any] = {
        "user": "ada",
        "name": "",
        "node_id": "n1",
        "running_s": 0.0,
        "remaining_s": None,
    }
    return Holder(job_id=job_id, gpu_milli=round(1000 * gpus), devices=devices, **facts | more)


def fewer_gpus(now: int, instead: int, node_id: str = "n1") -> Advice:
    text = f"with --gpus {instead} it would start now on {node_id}"
    return Advice("gpu_milli", 1000 * now, 1000 * instead, text)


def class_high(where: str = "n1", within: str = "1m", jobs: str = "1 job") -> Advice:
    text = f"with --class high it would start in at most {within} on {where}; {jobs} would give way"
    return Advice("priority_class", PriorityClass.DEFAULT, PriorityClass.HIGH, text)


def lab(*waiting: TaskBrief, limits: Limits, gpus: int = 8, **more: Any) -> Picture:
    """Job 17 of ann has three GPUs for another hour."""
    of_ann = task(17, asks(gpus=3), tenant_id="lab", user="ann", time_limit_s=3600)
    picture = picture_of([node(gpus=gpus)], waiting, [(of_ann, "n1", (0, 1, 2))], DRF)
    picture.set_tenant(Tenant("lab", limits=limits, **more))
    return picture


def held(job_id: int, gpus: float, *args: Any, tenant_id: str = "lab/vision", **more: Any) -> TaskBrief:
    return task(job_id, asks(gpus=gpus), *args, tenant_id=tenant_id, held=True, **more)
