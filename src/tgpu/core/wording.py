"""Numbers, moments and durations as the answers of the scheduler say them."""

from datetime import UTC, datetime

from tgpu.core.kernel.shapes import WHOLE
from tgpu.domain.job import Request

_GIB = 1024
_SHOWN = 3
"""Of a long list of names."""


def number(value: float) -> str:
    """1048576, not 1.04858e+06; 0.5, not 0.500."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def counted(label: str, amount: float) -> str:
    return "CPU" if label == "CPUs" and amount == 1 else label


def gpus(gpu_milli: int) -> str:
    count = gpu_milli / WHOLE
    if gpu_milli < WHOLE:
        return f"{count:g} of a GPU"
    return f"{count:g} {'GPU' if gpu_milli == WHOLE else 'GPUs'}"


def gpus_asked(request: Request) -> str:
    """`2 GPUs`, `0.5 of a GPU`, `10240 MiB of a GPU`; of which type and size, too."""
    asked = gpus(request.gpu_milli) if request.gpu_milli else f"{request.gpu_memory_mib} MiB of a GPU"
    if request.gpu_type:
        asked += f" of type {request.gpu_type}"
    if request.gpu_milli and request.gpu_memory_mib:
        asked += f" with {request.gpu_memory_mib} MiB"
    return asked


def are(count: float, thing: str = "") -> str:
    """`is`, or `are`; with a thing, `1 node is` or `2 nodes are`."""
    verb = "is" if count == 1 else "are"
    return f"{number(count)} {thing}{'' if count == 1 else 's'} {verb}" if thing else verb


def ordinal(position: int) -> str:
    tail = "th" if position % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(position % 10, "th")
    return f"{position}{tail}"


def names(of: list[str]) -> str:
    """`n1`, `n1 and n2`, `n1, n2, n3 and 9 more`."""
    if len(of) > _SHOWN:
        return f"{', '.join(of[:_SHOWN])} and {len(of) - _SHOWN} more"
    return " and ".join([", ".join(of[:-1]), of[-1]] if len(of) > 1 else of)


def clock(at_ms: int, now_ms: int) -> str:
    """`14:05 UTC`; with its day if that is not today."""
    moment, now = (datetime.fromtimestamp(at // 1000, UTC) for at in (at_ms, now_ms))
    return f"{moment:%H:%M} UTC" if moment.date() == now.date() else f"{moment:%Y-%m-%d %H:%M} UTC"


def duration(seconds: int) -> str:
    """As a time limit is written: `45s`, `35m`, `2h30m`, `1d`."""
    parts, rest = [], seconds
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def whole_minutes(seconds: int) -> int:
    """Not more, and easier to write, if it is more than a minute."""
    return seconds - seconds % 60 if seconds >= 60 else seconds  # noqa: PLR2004  seconds of a minute


def size(mib: int) -> str:
    """As a size is written: `512M`, `16G`."""
    return f"{mib // _GIB}G" if mib and mib % _GIB == 0 else f"{mib}M"


def whole_gib(mib: int) -> int:
    """Not more, and easier to write, if it is more than a GiB."""
    return mib - mib % _GIB if mib >= _GIB else mib
