"""How GPUs get into a container: through NVIDIA's runtime, or by their description (CDI)."""

from pathlib import Path
from typing import Any

from tgpu.runner.docker.engine import About
from tgpu.runner.task import Refusal

AUTO, NVIDIA, CDI, OFF = "auto", "nvidia", "cdi", "off"
WAYS = (AUTO, NVIDIA, CDI, OFF)
_CDI_KIND = "nvidia.com/gpu"
_PRETENDED = "GPU-simulated-"
_INSTALL = "install NVIDIA's container toolkit there, or set gpu_injection"


def way(said: str, about: About) -> str | None:
    """`nvidia`, `cdi` or `off`; None if the engine can do neither."""
    if said != AUTO:
        return said
    if any(_describes_gpus(folder) for folder in about.cdi_folders):
        return CDI
    return NVIDIA if NVIDIA in about.runtimes else None


def device_requests(uuids: tuple[str, ...], said: str, about: About) -> list[dict[str, Any]]:
    """What the engine is asked for; nothing for GPUs that are only pretended."""
    real = [uuid for uuid in uuids if uuid and not uuid.startswith(_PRETENDED)]
    chosen = way(said, about) if real else OFF
    if chosen is None:
        raise Refusal(f"this node's container engine cannot give GPUs to containers: {_INSTALL}")
    if chosen == OFF:
        return []
    if chosen == CDI:
        return [{"Driver": CDI, "DeviceIDs": [f"{_CDI_KIND}={uuid}" for uuid in real]}]
    return [{"Driver": NVIDIA, "DeviceIDs": real, "Capabilities": [["gpu"]]}]


def variables(uuids: tuple[str, ...]) -> dict[str, str]:
    """In a container only its own GPUs are there, and they are counted from 0. `void` keeps NVIDIA's runtime,
    where it is the usual one, from giving it all of them."""
    return {
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(len(uuids)))),
        "NVIDIA_VISIBLE_DEVICES": ",".join(uuids) or "void",
    }


def _describes_gpus(folder: str) -> bool:
    try:
        files = [path for path in Path(folder).iterdir() if path.suffix in (".json", ".yaml", ".yml")]
        return any(_CDI_KIND in path.read_text(encoding="utf-8", errors="replace") for path in files)
    except OSError:
        return False
