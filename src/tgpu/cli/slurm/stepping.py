"""Runs one step of the job that this is in: its tasks on this node, and by their keepers on the others."""

from __future__ import annotations

import os
import signal
import sys
from itertools import chain
from pathlib import Path

from tgpu.cli.slurm import guarding
from tgpu.cli.slurm.far_tasks import FarTasks
from tgpu.cli.slurm.local_tasks import LocalTasks
from tgpu.cli.slurm.placing import places
from tgpu.cli.slurm.step_output import StepOutput
from tgpu.cli.slurm.turns import Turn
from tgpu.dialects.slurm import exporting, step_gpus
from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tgpu.cli.slurm.placing import Place
    from tgpu.dialects.slurm.step_plan import Task

    Said = dict[str, str | None]

_LOOK_S = 0.05
_ATTEMPT = ("TGPU_JOB_ID", "TGPU_TASK_INDEX", "TGPU_ATTEMPT")


def run(said: Said, inherited: Said, argv: Sequence[str]) -> int:
    """The highest exit code among its tasks. `inherited`: what it takes from its job, unsaid."""
    own = os.environ.get("SLURM_JOB_ID", "")
    if said.get("jobid") not in (None, own):
        raise SlurmError(
            f"--jobid: this is job {own}; `tgpu exec JOB -- PROGRAM` runs something inside another"
        )
    each = int(os.environ.get("SLURM_CPUS_ON_NODE") or 1)
    turn = Turn("/".join(os.environ.get(name, "") for name in _ATTEMPT), os.environ.get(step_gpus.OWNER, ""))
    wanted = places(said | inherited, os.environ)
    place = next(wanted)
    if "pty" in said and len(place.step.tasks) == 1 and place.step.nodes == [0]:
        place.cpus = {}  # whoever types in it starts other steps
        taken, step_id = _taken(turn, [place], each, said)[1], turn.number()
        found = _variables(place, place.step.tasks[0], step_id, taken)
        turn.keep_through_exec()
        os.execvpe(argv[0], list(argv), {**os.environ, **found})  # noqa: S606  it takes the place of this program
    _refuse_more_than_there_are(place, each, said)
    guarding.go_on_in_a_child()
    place, taken = _taken(turn, chain([place], wanted if _hears_nothing() else ()), each, said)
    code = _Running(place, said | inherited, turn.number(), taken).carried_out(argv)
    guarding.end_all()
    return code


def _refuse_more_than_there_are(place: Place, each: int, said: Said) -> None:
    """What the job's own tasks need is not more, though flags of `tgpu submit` may have given it less. Nor is
    what a step did not ask for itself: as many CPUs for each task as the job's own have."""
    if "SLURM_STEP_ID" in os.environ or not place.cpus:
        return
    tasks, nodes, of_task = (
        int(text) if (text := os.environ.get(name, "")).isdigit() else 1
        for name in ("SLURM_NTASKS", "SLURM_JOB_NUM_NODES", "SLURM_CPUS_PER_TASK")
    )
    cpus = max(place.cpus.values())
    if "cpus-per-task" not in said:
        cpus = max(len(place.step.on(node)) for node in place.step.nodes)
    if cpus > max(each, -(-tasks // max(1, nodes)) * of_task):
        raise SlurmError(
            f"Unable to create step for job {os.environ.get('SLURM_JOB_ID')}: More processors requested than "
            f"permitted: it asks for {cpus} CPUs on one node, where the job has {each}; ask for fewer tasks, "
            "for more in the job's #SBATCH lines, or say --overcommit"
        )


def _taken(turn: Turn, wanted: Iterable[Place], each: int, said: Said) -> tuple[Place, dict[int, list[str]]]:
    """Where the step runs, and its GPUs by node, once it has them and its CPUs. A step in a step has CPUs
    already, those of that one."""
    if "overlap" in said:
        place = next(iter(wanted))
        return place, place.first_gpus()
    if "SLURM_STEP_ID" in os.environ:
        place = next(iter(wanted))
        place.cpus = {}
        wanted = [place]
    return turn.wait_for(wanted, each)


def _hears_nothing() -> bool:
    """Whether nothing is lost if no task is on this node, as of `srun … &` in a script."""
    return os.fstat(0).st_rdev == Path(os.devnull).stat().st_rdev


def _variables(place: Place, task: Task, step_id: int, taken: dict[int, list[str]]) -> dict[str, str]:
    """What a task on this node finds."""
    found = place.step.variables(task, step_id)
    if place.gpus is not None:
        found |= step_gpus.variables(taken[0], task.local, place.gpus.binding, str(step_id))
    return found


class _Running:
    def __init__(self, place: Place, said: Said, step_id: int, taken: dict[int, list[str]]) -> None:
        self._place, self._step, self._said, self._id = place, place.step, said, step_id
        self._taken = taken
        self._cwd = str(Path(said.get("chdir") or ".").absolute())
        self._output = StepOutput(said, place.step, step_id)
        self._codes: dict[int, int] = {}

    def carried_out(self, argv: Sequence[str]) -> int:
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [*guarding.PASSED_ON, signal.SIGCHLD])
        env = self._environment()
        far = [self._far(node, argv, env) for node in self._step.nodes if node]
        near = LocalTasks(self._output.told if self._output.is_heard else None)
        near.keep_mask({signal.Signals(number) for number in mask})
        for task in self._step.on(0):
            own = _variables(self._place, task, self._id, self._taken)
            near.start(task.rank, argv, {**env, **own}, self._cwd, self._output.files_of(task))
        for rank, (code, why) in near.failed.items():
            print(f"srun: error: {why}", file=sys.stderr)
            self._codes[rank] = code
        for one in far:
            one.start()
        near.read()
        self._wait(near, far)
        self._output.finish()
        return max(self._codes.values(), default=0)

    def _far(self, node: int, argv: Sequence[str], env: dict[str, str]) -> FarTasks:
        tasks = [
            {"rank": task.rank, "local": task.local, "env": self._step.variables(task, self._id)}
            for task in self._step.on(node)
        ]
        binding = None if self._place.gpus is None else self._place.gpus.binding
        asked = {
            "argv": list(argv),
            "env": env,
            "cwd": self._cwd,
            "tasks": tasks,
            "gpus": self._taken.get(node),
            "gpus_per_task": binding and binding.per_task,
            "tasks_per_gpu": binding and binding.tasks_per_gpu,
        }
        return FarTasks(node, asked, self._output.told_from_afar)

    def _environment(self) -> dict[str, str]:
        """A step has all of the script's environment, unless it says otherwise."""
        said = self._said.get("export")
        if said is None:
            return dict(os.environ)
        own = ("SLURM", "TGPU_", "CUDA_")
        kept = {name: value for name, value in os.environ.items() if name.startswith(own)}
        kept["PATH"] = os.environ.get("PATH", os.defpath)
        return kept | exporting.environment(said, os.environ, dict)

    def _wait(self, near: LocalTasks, far: list[FarTasks]) -> None:
        while near.live or any(one.live for one in far):
            heard = signal.sigtimedwait([*guarding.PASSED_ON, signal.SIGCHLD], _LOOK_S)
            if heard is not None and heard.si_signo != signal.SIGCHLD and not guarding.is_for_all(heard):
                near.send(heard.si_signo)
                for one in far:
                    one.send(heard.si_signo)
            ended = near.ended() + [end for one in far for end in one.ended()]
            for rank, code in ended:
                self._codes[rank] = code
                if code:
                    self._complain(rank, code)
            if any(code for _, code in ended) and self._said.get("kill-on-bad-exit", "0") != "0":
                near.send(signal.SIGTERM)
                for one in far:
                    one.send(signal.SIGTERM)

    def _complain(self, rank: int, code: int) -> None:
        task = self._step.tasks[rank]
        how = f"Exited with exit code {code}"
        if code > 128:  # noqa: PLR2004
            how = signal.strsignal(code - 128) or f"Killed by signal {code - 128}"
        if "quiet" not in self._said:
            print(f"srun: error: {self._step.names[task.node_rank]}: task {rank}: {how}", file=sys.stderr)
