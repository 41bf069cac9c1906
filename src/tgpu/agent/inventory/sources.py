"""The ways to find GPUs: NVIDIA's library, `nvidia-smi` where that is all there is, or somebody's word.

Another maker's GPUs would be another `Gpus`, and a line here.
"""

from tgpu.agent.inventory.gpus import Gpus, UnseenGpus, simulated
from tgpu.agent.inventory.nvml import NvmlGpus
from tgpu.agent.inventory.patience import PatientGpus
from tgpu.agent.inventory.smi import SmiGpus, smi_answers
from tgpu.agent.inventory.stated import is_statement, stated
from tgpu.config.settings import Settings


def source_of(settings: Settings) -> Gpus:
    if settings.simulate_gpus:
        return simulated(settings.simulate_gpus, settings.simulate_gpu_model)
    if is_statement(settings.node_gpus):
        return UnseenGpus(stated(settings.node_gpus))
    return UnseenGpus(()) if settings.node_gpus.strip().lower() == "none" else _found()


def _found() -> Gpus:
    """By NVML if it loads, else by `nvidia-smi` if it answers, else none."""
    import pynvml  # noqa: PLC0415  only a node that looks for GPUs needs it

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return PatientGpus(SmiGpus()) if smi_answers() else UnseenGpus(())
    return PatientGpus(NvmlGpus(pynvml))
