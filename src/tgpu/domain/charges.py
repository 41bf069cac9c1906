"""What a task is charged for, by dimension: the one rule of the ledger and of whoever decides who starts."""

from tgpu.domain.gpu_words import folded
from tgpu.domain.job import Request
from tgpu.domain.quota import GENERIC, GPU_MODEL

WHOLE_GPU = 1000


def charged_gpu_milli(request: Request) -> int:
    """By memory alone a whole one: what part of a GPU that is depends on the one it gets."""
    if request.gpu_milli or not request.gpu_memory_mib:
        return request.gpu_milli
    return WHOLE_GPU


def charged_of(request: Request, name: str) -> int:
    """Of a named dimension. GPUs of a model only if it asks for such by name: others it is not given."""
    if name.startswith(GPU_MODEL):
        return charged_gpu_milli(request) if asks_for_model(request, name.removeprefix(GPU_MODEL)) else 0
    return dict(request.generic).get(name.removeprefix(GENERIC), 0)


def asks_for_model(request: Request, model: str) -> bool:
    """`model` is written small."""
    return request.gpu_type is not None and folded(model) in folded(request.gpu_type)
