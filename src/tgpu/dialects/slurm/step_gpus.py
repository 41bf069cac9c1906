"""The GPUs of a step: how many of the job's it asks for, on which nodes, and which of them its tasks find."""

from __future__ import annotations

from tgpu.dialects.slurm import gres
from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tgpu.dialects.slurm.step_plan import Step

NAMING = ("gres", "gpus", "gpus-per-node", "gpus-per-task", "ntasks-per-gpu", "tres-per-task")
"""A step that says none of these finds all GPUs of its job."""

_MOST_TASKS = 10_000

OWNER = "TGPU_STEP_OF_GPUS"
"""In a step: the one, it or one around it, whose GPUs it finds. Not set: they are all of the job's."""


class Binding:
    """Which of a step's GPUs on a node each task is bound to: to so many of its own, to one that it shares
    with others (`--ntasks-per-gpu`), or to all of them."""

    __slots__ = ("per_task", "tasks_per_gpu")

    def __init__(self, per_task: int | None = None, tasks_per_gpu: int | None = None) -> None:
        self.per_task, self.tasks_per_gpu = per_task, tasks_per_gpu

    def least(self, tasks: int) -> int:
        """How many GPUs a node must have for its tasks."""
        if self.tasks_per_gpu is not None:
            return -(-tasks // self.tasks_per_gpu)
        return (self.per_task or 0) * tasks

    def of(self, local: int, devices: Sequence[str]) -> Sequence[str]:
        """`local`: which one of its node's tasks it is."""
        if self.tasks_per_gpu is not None:
            at = local // self.tasks_per_gpu
            return devices[at : at + 1]
        return devices if self.per_task is None else devices[local * self.per_task :][: self.per_task]


class StepGpus:
    """`counts`: how many on which node."""

    def __init__(self, counts: dict[int, int], binding: Binding) -> None:
        self.counts, self.binding = counts, binding

    def among(self, environ: Mapping[str, str], job: str) -> dict[int, tuple[int, list[str]]]:
        """By node: how many, and which there are for all steps. Here by their own names, elsewhere by their
        places, which their node knows the names of. Raises SlurmError if there are too few."""
        here = environ.get("CUDA_VISIBLE_DEVICES", environ.get("SLURM_JOB_GPUS", ""))
        own = [device for device in here.split(",") if device]
        each = int(environ.get("SLURM_GPUS_ON_NODE") or len(own))
        found = {}
        for node, count in self.counts.items():
            names = [str(at) for at in range(each)] if node else own
            if count > len(names):
                raise SlurmError(
                    f"Unable to create step for job {job}: Requested node configuration is not available: "
                    f"it asks for {count} GPU{'s' * (count > 1)} on a node, where the job has {len(names)}; "
                    "ask for fewer, or for more in the job's #SBATCH lines"
                )
            found[node] = count, names
        return found


def tasks_of(said: Mapping[str, str | None], of_gpu: int | None, nodes: int) -> int | None:
    """How many tasks are meant by whoever says how many GPUs there are, in all or on each of the `nodes`, and
    how many of them a task has, or with `of_gpu` how many tasks a GPU has. None: not all of that is said."""
    on_node, in_all, of_task = _named(said)
    total = int(in_all.count if in_all is not None else on_node.count * nodes if on_node is not None else 0)
    if not total:
        return None
    if of_gpu is not None:
        return of_gpu * total
    return max(1, total // int(of_task.count)) if of_task is not None and of_task.count else None


def asked(said: Mapping[str, str | None], step: Step) -> StepGpus | None:
    """None: nothing is said of GPUs, or of parts of one, which its steps share."""
    on_node, in_all, of_task = _named(said)
    of_gpu = said.get("ntasks-per-gpu")
    if on_node is None and in_all is None and of_task is None and of_gpu is None:
        return None
    if on_node is not None and on_node.count != int(on_node.count):
        return None
    binding = Binding(None if of_task is None else int(of_task.count), _whole("ntasks-per-gpu", of_gpu))
    each, more = divmod(0 if in_all is None else int(in_all.count), len(step.nodes))
    counts = {}
    for at, node in enumerate(step.nodes):
        shared = each + (at < more) if on_node is None else int(on_node.count)
        counts[node] = max(shared, binding.least(len(step.on(node))))
    return StepGpus(counts, binding)


def _whole(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:9]) <= _MOST_TASKS:
        raise SlurmError(f"--{name} must be a whole number from 1 to {_MOST_TASKS}; got {text!r}")
    return int(text)


def _named(said: Mapping[str, str | None]) -> tuple[gres.Gpus | None, gres.Gpus | None, gres.Gpus | None]:
    """On each node, in all, and of each task."""
    on_node = in_all = of_task = None
    if (text := said.get("gres")) is not None:
        on_node, _ = gres.gres("--gres", text)
        if on_node is None and text == "none":
            on_node = gres.Gpus(0)
    if (text := said.get("tres-per-task")) is not None:
        _, of_task = gres.per_task("--tres-per-task", text)
    if (text := said.get("gpus-per-task")) is not None:
        of_task = gres.gpus("--gpus-per-task", text)
    if (text := said.get("gpus-per-node")) is not None:
        on_node = gres.gpus("--gpus-per-node", text)
    if (text := said.get("gpus")) is not None:
        in_all = gres.gpus("--gpus", text)
    return on_node, in_all, of_task


def variables(devices: Sequence[str], local: int, binding: Binding, step_id: str) -> dict[str, str]:
    """What a task finds of the step's `devices` on its node. `local`: which one of the node's tasks it is."""
    return {
        "CUDA_VISIBLE_DEVICES": ",".join(binding.of(local, devices)),
        "SLURM_STEP_GPUS": ",".join(devices),
        "SLURM_GPUS_ON_NODE": str(len(devices)),
        OWNER: step_id,
    }
