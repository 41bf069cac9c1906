"""Numbers, moments and durations as the answers of the scheduler say them."""

from datetime import UTC, datetime

from tgpu.core.kernel.shapes import WHOLE
from tgpu.domain.job import Request
from tgpu.domain.quantities import size_in_words

_GIB = 1024
_MINUTE_S = 60
_LEAST_MARGIN_S = 10
_MARGIN_PART = 50
"""Of the time that is left: 2 %."""
_SHOWN = 3
"""Of a long list of names."""


def number(value: float) -> str:
    """1048576, not 1.04858e+06; 0.5, not 0.500."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


CPUS, MEMORY, DISK = 0, 1, 2
"""The columns of the amounts that every node has."""


def bare_amount(column: int, amount: int) -> str:
    """`2` of CPUs, `16 GiB` of memory or disk, `4` of anything else."""
    if column == CPUS:
        return number(amount / WHOLE)
    return size_in_words(amount) if column in (MEMORY, DISK) else number(amount)


def amount_of(column: int, amount: int, name: str = "") -> str:
    """`2 CPUs`, `16 GiB of memory`, `1 of fpga`; the name is that of a generic resource."""
    bare = bare_amount(column, amount)
    if column == CPUS:
        return f"{bare} {'CPU' if amount == WHOLE else 'CPUs'}"
    return f"{bare} of {('', 'memory', 'disk')[column] if column in (MEMORY, DISK) else name}"


def gpus(gpu_milli: int) -> str:
    count = gpu_milli / WHOLE
    if gpu_milli < WHOLE:
        return f"{count:g} of a GPU"
    return f"{count:g} {'GPU' if gpu_milli == WHOLE else 'GPUs'}"


def gpus_asked(request: Request) -> str:
    """`2 GPUs`, `0.5 of a GPU`, `10 GiB of a GPU`; of which type and size, too."""
    memory = size_in_words(request.gpu_memory_mib)
    asked = gpus(request.gpu_milli) if request.gpu_milli else f"{memory} of a GPU"
    if request.gpu_type:
        asked += f" of type {request.gpu_type}"
    if request.gpu_milli and request.gpu_memory_mib:
        asked += f" with {memory}"
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


def exact_clock(at_ms: int, now_ms: int) -> str:
    """`14:05:30 UTC`: of a moment that is no estimate, and may be a few seconds away."""
    moment, now = (datetime.fromtimestamp(at // 1000, UTC) for at in (at_ms, now_ms))
    return f"{moment:%H:%M:%S} UTC" if moment.date() == now.date() else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def limit_before(moment_ms: int, now_ms: int) -> int:
    """A time limit, in seconds, with which a job that is typed a little later still ends before the moment.

    It is easier to write if it is more than a minute. Not positive: there is no such limit.
    """
    left_s = (moment_ms - now_ms) // 1000
    limit_s = left_s - max(_LEAST_MARGIN_S, -(-left_s // _MARGIN_PART))
    return limit_s - limit_s % _MINUTE_S if limit_s >= _MINUTE_S else limit_s


def size(mib: int) -> str:
    """As a size is written: `512M`, `16G`."""
    return f"{mib // _GIB}G" if mib and mib % _GIB == 0 else f"{mib}M"


def whole_gib(mib: int) -> int:
    """Not more, and easier to write, if it is more than a GiB."""
    return mib - mib % _GIB if mib >= _GIB else mib
