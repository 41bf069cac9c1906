"""Variables that tgpu sets in a task, whatever its manifest says of them: other values are refused there."""

from tgpu.dialects.kubernetes.itself import OF_INDEX
from tgpu.dialects.kubernetes.problems import refused
from tgpu.dialects.kubernetes.resources import GPU
from tgpu.dialects.kubernetes.shape import Container, EnvVar

INDEX = "JOB_COMPLETION_INDEX"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_OF_IMAGES = "NVIDIA_VISIBLE_DEVICES"
"""Set in containers alone: a process finds what its manifest says."""
OWN = frozenset({
    "CUDA_DEVICE_ORDER", INDEX, _VISIBLE, _OF_IMAGES,
    "TGPU_JOB_ID", "TGPU_JOB_NAME", "TGPU_TASK_INDEX", "TGPU_ATTEMPT",
    "TGPU_ARRAY_INDEX", "TGPU_ARRAY_COUNT", "TGPU_ARRAY_MIN", "TGPU_ARRAY_MAX", "TGPU_ARRAY_STEP",
    "TGPU_CHECKPOINT_DIR", "TGPU_CHECKPOINT_FILE",
})  # fmt: skip
_ORDER = ("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
_WITHOUT_GPUS = {_ORDER, (_VISIBLE, ""), (_OF_IMAGES, ""), (_OF_IMAGES, "none"), (_OF_IMAGES, "void")}
_WITH_GPUS = {_ORDER, (_OF_IMAGES, "all")}
"""What holds anyway. `all` are those of the container there, too, where it asks for some."""


def check(variable: EnvVar, path: str, asked: Container) -> None:
    name = variable.name
    if name not in OWN or (name == _OF_IMAGES and not asked.image) or _says_what_holds(variable, asked):
        return
    raise refused(f"{path}.name", f"cannot be {name} here: tgpu sets that itself in every task; leave it out")


def _says_what_holds(variable: EnvVar, asked: Container) -> bool:
    source = variable.value_from
    if source is None:
        some = str(asked.resources.limits.get(GPU, 0)) != "0"
        return (variable.name, variable.value) in (_WITH_GPUS if some else _WITHOUT_GPUS)
    wanted = source.field_ref and source.field_ref.field_path
    return variable.name == INDEX and wanted in OF_INDEX
