"""How many nodes, tasks, CPUs and GPUs a job has, and how much memory, from the many ways of saying it."""

from __future__ import annotations

from tgpu.dialects.slurm.gres import Gpus, gpus, gres, per_task
from tgpu.dialects.slurm.hosts import expanded
from tgpu.dialects.slurm.refusal import SlurmError
from tgpu.dialects.slurm.sizes import mebibytes

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from tgpu.dialects.slurm.given import Given

_MOST = 10_000


class Layout:
    """`cpus`, `gpus` and `memory_mib` are those of one node; nodes are alike."""

    def __init__(self) -> None:
        self.nodes = 1
        self.tasks = 1
        self.cpus_per_task = 1
        self.cpus = 1
        self.gpus: float = 0
        self.model: str | None = None
        self.memory_mib: int | None = None
        self.generic: dict[str, int] = {}
        self.hosts: list[str] = []
        """Those that it must have."""
        self.gpus_per_task: int | None = None
        self.warnings: list[str] = []

    @property
    def tasks_per_node(self) -> list[int]:
        """Of each node, as Slurm shares them out."""
        each, more = divmod(self.tasks, self.nodes)
        return [each + (at < more) for at in range(self.nodes)]


def layout_of(given: Given) -> Layout:
    made = Layout()
    made.hosts = _hosts(given)
    on_node, in_all, of_task = _asked_gpus(given, made)
    made.gpus_per_task = None if of_task is None else int(of_task.count)
    _count_nodes(given, made, on_node, in_all)
    _count_tasks(given, made, on_node, in_all, of_task)
    each = max(made.tasks_per_node)
    _count_gpus(given, made, on_node, in_all, of_task)
    made.cpus = max(
        made.cpus_per_task * (1 if given.has("overcommit") else each), _number(given, "mincpus") or 1
    )
    if (of_gpu := _number(given, "cpus-per-gpu")) is not None:
        made.cpus = max(made.cpus, of_gpu * _whole_gpus(given, "cpus-per-gpu", made))
    made.memory_mib = _memory(given, made)
    return made


def _hosts(given: Given) -> list[str]:
    text = given.get("nodelist")
    return [] if text is None else list(dict.fromkeys(expanded("--nodelist", text)))


def _asked_gpus(given: Given, made: Layout) -> tuple[Gpus | None, Gpus | None, Gpus | None]:
    """On each node, in all, and of each task."""
    on_node = in_all = of_task = None
    if (text := given.get("gres")) is not None:
        try:
            on_node, made.generic = gres("--gres", text)
        except SlurmError as error:
            raise error.at(given.where("gres")) from None
    if (text := given.get("tres-per-task")) is not None:
        try:
            cpus, of_task = per_task("--tres-per-task", text)
        except SlurmError as error:
            raise error.at(given.where("tres-per-task")) from None
        made.cpus_per_task = cpus or 1
    on_node = _gpus(given, "gpus-per-node") or on_node
    in_all = _gpus(given, "gpus")
    of_task = _gpus(given, "gpus-per-task") or of_task
    models = {asked.model for asked in (on_node, in_all, of_task) if asked is not None and asked.model}
    if len(models) > 1:
        raise SlurmError(f"a job can have GPUs of one model; this asks for {' and '.join(sorted(models))}")
    made.model = models.pop() if models else None
    return on_node, in_all, of_task


def _gpus(given: Given, name: str) -> Gpus | None:
    text = given.get(name)
    if text is None:
        return None
    try:
        return gpus(f"--{name}", text)
    except SlurmError as error:
        raise error.at(given.where(name)) from None


def _count_nodes(given: Given, made: Layout, on_node: Gpus | None, in_all: Gpus | None) -> None:
    said = _nodes(given)
    tasks, each = _number(given, "ntasks"), _number(given, "ntasks-per-node")
    if said is not None:
        made.nodes = max(said, len(made.hosts))
    elif made.hosts:
        made.nodes = len(made.hosts)
    elif tasks is not None and each is not None:
        made.nodes = -(-tasks // each)
    elif on_node is not None and in_all is not None and on_node.count:
        made.nodes = max(1, int(in_all.count // on_node.count))
    if made.hosts and made.nodes > len(made.hosts):
        raise given.refuse(
            "nodelist", f"names {len(made.hosts)} nodes, and --nodes asks for {made.nodes}: name as many"
        )


def _nodes(given: Given) -> int | None:
    text = given.get("nodes")
    if text is None:
        return None
    first = text.partition("-")[0].strip().lower()
    factor = {"k": 1024, "m": 1024**2}.get(first[-1:], 1)
    number = first.rstrip("km")
    if not (number.isascii() and number.isdigit()) or not 1 <= int(number[:9]) * factor <= _MOST:
        raise given.refuse("nodes", f"must be a number of nodes from 1 to {_MOST}, such as 2; got {text!r}")
    return int(number) * factor


def _count_tasks(
    given: Given, made: Layout, on_node: Gpus | None, in_all: Gpus | None, of_task: Gpus | None
) -> None:
    said, each = _number(given, "ntasks"), _number(given, "ntasks-per-node")
    of_gpu = _number(given, "ntasks-per-gpu")
    total_gpus = in_all.count if in_all is not None else (on_node.count * made.nodes if on_node else 0)
    if said is not None:
        made.tasks = said
        if said < made.nodes:
            made.warnings.append(
                f"{given.where('ntasks')}: {said} task{'s' * (said > 1)} cannot be on {made.nodes} nodes; "
                f"takes {said}"
            )
            made.nodes = said
    elif each is not None:
        made.tasks = each * made.nodes
    elif of_gpu is not None and total_gpus:
        made.tasks = int(of_gpu * total_gpus)
    elif of_task is not None and total_gpus and of_task.count:
        made.tasks = max(made.nodes, int(total_gpus // of_task.count))
    else:
        made.tasks = made.nodes
    if made.tasks > _MOST:
        raise SlurmError(f"a job may have at most {_MOST} tasks; this asks for {made.tasks}")
    made.cpus_per_task = _number(given, "cpus-per-task") or made.cpus_per_task


def _count_gpus(
    given: Given, made: Layout, on_node: Gpus | None, in_all: Gpus | None, of_task: Gpus | None
) -> None:
    if on_node is not None:
        made.gpus = on_node.count
    elif in_all is not None:
        if in_all.count % made.nodes:
            raise given.refuse("gpus", f"must be as many on each of {made.nodes} nodes; say --gpus-per-node")
        made.gpus = in_all.count // made.nodes
    elif of_task is not None:
        made.gpus = of_task.count * max(made.tasks_per_node)
    elif (of_gpu := _number(given, "ntasks-per-gpu")) is not None:
        made.gpus = -(-max(made.tasks_per_node) // of_gpu)


def _memory(given: Given, made: Layout) -> int | None:
    """None: as the house has it."""
    for name in ("mem", "mem-per-cpu", "mem-per-gpu"):
        text = given.get(name)
        if text is None:
            continue
        try:
            size = mebibytes(f"--{name}", text)
        except SlurmError as error:
            raise error.at(given.where(name)) from None
        if name == "mem":
            return size
        return size * (made.cpus if name == "mem-per-cpu" else _whole_gpus(given, name, made))
    return None


def _whole_gpus(given: Given, name: str, made: Layout) -> int:
    if not made.gpus:
        raise given.refuse(name, "is about GPUs, and the job asks for none: say --gpus or --gres=gpu:N")
    return max(1, int(made.gpus))


def _number(given: Given, name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.strip().isdigit()) or not 1 <= int(text[:9]) <= _MOST:
        raise given.refuse(name, f"must be a whole number from 1 to {_MOST}; got {text!r}")
    return int(text)
