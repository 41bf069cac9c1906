"""A step: which tasks of it run on which node of the job, and what each of them finds in its environment."""

from __future__ import annotations

from tgpu.dialects.slurm.hosts import expanded, in_order, repeated
from tgpu.dialects.slurm.refusal import SlurmError
from tgpu.dialects.slurm.step_gpus import tasks_of

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST = 10_000


class Task:
    """`rank` over all nodes of the step, `local` on its own; `node`: which of the job's nodes that is."""

    __slots__ = ("local", "node", "node_rank", "rank")

    def __init__(self, rank: int, local: int, node: int, node_rank: int) -> None:
        self.rank, self.local, self.node, self.node_rank = rank, local, node, node_rank


class Step:
    def __init__(
        self, tasks: list[Task], names: list[str], said: Mapping[str, str | None], first: str = "localhost"
    ) -> None:
        """`names`: of the step's nodes. `first`: the node of the job's script."""
        self.tasks, self.names, self._said, self._first = tasks, names, said, first

    def on(self, node: int) -> list[Task]:
        return [task for task in self.tasks if task.node == node]

    @property
    def nodes(self) -> list[int]:
        return sorted({task.node for task in self.tasks})

    def cpus_on(self, node: int) -> int:
        return (_number(self._said, "cpus-per-task") or 1) * len(self.on(node))

    def variables(self, task: Task, step_id: int) -> dict[str, str]:
        counts = [len(self.on(node)) for node in self.nodes]
        found = {
            "SLURM_PROCID": str(task.rank),
            "SLURM_LOCALID": str(task.local),
            "SLURM_NODEID": str(task.node_rank),
            "SLURM_GTIDS": ",".join(str(other.rank) for other in self.on(task.node)),
            "SLURM_NTASKS": str(len(self.tasks)),
            "SLURM_NPROCS": str(len(self.tasks)),
            "SLURM_NNODES": str(len(counts)),
            "SLURM_TASKS_PER_NODE": repeated(counts),
            "SLURM_STEP_ID": str(step_id),
            "SLURM_STEPID": str(step_id),
            "SLURM_STEP_NUM_TASKS": str(len(self.tasks)),
            "SLURM_STEP_NUM_NODES": str(len(counts)),
            "SLURM_STEP_TASKS_PER_NODE": repeated(counts),
            "SLURM_STEP_NODELIST": in_order(self.names),
            "SLURM_LAUNCH_NODE_IPADDR": self._first,
        }
        if name := self._said.get("job-name"):
            found["SLURM_JOB_NAME"] = name
        if cpus := self._said.get("cpus-per-task"):
            found["SLURM_CPUS_PER_TASK"] = cpus
        return found


def step_of(said: Mapping[str, str | None], environ: Mapping[str, str]) -> Step:
    """By srun's own options, and what the job has."""
    names = expanded("SLURM_JOB_NODELIST", environ.get("SLURM_JOB_NODELIST", "localhost"))
    total = _number(environ, "SLURM_JOB_NUM_NODES") or len(names)
    chosen = list(range(min(total, len(names))))
    if said.get("nodelist"):
        wanted = expanded("--nodelist", str(said["nodelist"]))
        called = environ.get("TGPU_NODENAMES", "").split(",")
        places = dict(zip(names, chosen, strict=False)) | dict(zip(called, chosen, strict=False))
        missing = [name for name in wanted if name not in places]
        if missing:
            there = ",".join(names if called == [""] else called)
            raise SlurmError(f"--nodelist: {missing[0]} is none of the job's nodes, {there}")
        chosen = sorted({places[name] for name in wanted})
    elif (first := _number(said, "relative")) is not None:
        chosen = chosen[first:]
    tasks, nodes = _number(said, "ntasks"), _number(_first_of_range(said), "nodes")
    each = _number(said, "ntasks-per-node")
    if tasks is None and each is None:
        tasks = tasks_of(said, _number(said, "ntasks-per-gpu"), nodes or len(chosen))
    if tasks is None and nodes is None and each is None:
        each = _number(environ, "SLURM_NTASKS_PER_NODE") if not environ.get("SLURM_NTASKS") else None
        tasks = _number(environ, "SLURM_NTASKS") if each is None and not said.get("nodelist") else None
    if nodes is not None and nodes > len(chosen):
        raise SlurmError(f"--nodes: the job has {len(chosen)} nodes; got {nodes}")
    chosen = chosen[:nodes] if nodes else chosen
    if tasks is None:
        tasks = (each or 1) * len(chosen)
    chosen = chosen[:tasks]
    if not chosen or not 1 <= tasks <= _MOST:
        raise SlurmError(f"--ntasks must be from 1 to {_MOST}, on nodes that the job has")
    return Step(_shared_out(tasks, chosen), [names[node] for node in chosen], said, names[0])


def _shared_out(tasks: int, nodes: list[int]) -> list[Task]:
    """As many on each node as on the others, or one more on the first ones."""
    each, more = divmod(tasks, len(nodes))
    found: list[Task] = []
    for node_rank, node in enumerate(nodes):
        for local in range(each + (node_rank < more)):
            found.append(Task(len(found), local, node, node_rank))
    return found


def _first_of_range(said: Mapping[str, str | None]) -> dict[str, str | None]:
    text = said.get("nodes")
    return {"nodes": text.partition("-")[0] if text else None}


def _number(said: Mapping[str, str | None], name: str) -> int | None:
    text = said.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or int(text[:9]) > _MOST:
        raise SlurmError(f"--{name} must be a whole number up to {_MOST}; got {text!r}")
    return int(text)
