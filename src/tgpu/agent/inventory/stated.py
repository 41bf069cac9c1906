"""GPUs that a node has but cannot see, as its settings state them: `4xA100:80G`."""

import re

from tgpu.config.settings import SettingsError
from tgpu.domain.node import Device
from tgpu.domain.quantities import BadQuantityError, mib

MOST = 62
"""As many as the scheduler can tell apart on one node."""
UNKNOWN_MODEL = "GPU"
_KIND = re.compile(r"(?P<count>[0-9]{1,3})x(?P<model>[^,:]*)(:(?P<memory>[^,:]+))?", re.IGNORECASE)
_IN_THE_NAME = re.compile(r"[-_ ]([0-9]+ ?GI?B?)$", re.IGNORECASE)


def is_statement(text: str) -> bool:
    """Indices have no `x` behind their digits."""
    return _KIND.match(text.strip()) is not None


def stated(text: str) -> list[Device]:
    """The devices, numbered in the order in which they are named. Raises SettingsError."""
    devices: list[Device] = []
    for kind in text.split(","):
        match = _KIND.fullmatch(kind.strip())
        if match is None:
            raise SettingsError(f"node_gpus states GPUs as 4xA100:80G or 2xT4,2xMI300:192G; got {text!r}")
        model = match["model"].strip() or UNKNOWN_MODEL
        memory = _memory(match["memory"], model)
        first = len(devices)
        devices += [
            Device(index, f"GPU-stated-{index}", model, memory)
            for index in range(first, first + int(match["count"]))
        ]
    if len(devices) > MOST:
        raise SettingsError(f"node_gpus states {len(devices)} GPUs; a node may have at most {MOST}")
    return devices


def _memory(said: str | None, model: str) -> int:
    """As said, or as the model's own name has it (A100-80GB); 0 is not known."""
    named = _IN_THE_NAME.search(model)
    size = said if said is not None else named[1].replace(" ", "") if named else "0"
    try:
        return mib("node_gpus", size)
    except BadQuantityError as error:
        raise SettingsError(str(error)) from None
