"""submitit's executor for tgpu: a submission is a job, several are one array."""

import os
import re
import shutil
import sys
import uuid
from pathlib import Path
from typing import Any

from submitit.core import core
from submitit.core.utils import DelayedSubmission, JobPaths

from tgpu.client import Client, locate, private_folder
from tgpu.client.surroundings import exported, here, host
from tgpu.submitit_plugin.environment import ONCE_MORE, TgpuJobEnvironment
from tgpu.submitit_plugin.job import TgpuJob

_GENERIC = frozenset({
    "name", "timeout_min", "mem_gb", "nodes", "cpus_per_task", "gpus_per_node", "tasks_per_node",
    "stderr_to_stdout",
})  # fmt: skip
FIELDS = frozenset({
    "after", "begin_at", "cpu_limit", "cwd", "deadline_at", "disk_request_mb", "env", "exclusive",
    "generic", "gpu_memory_mb", "gpu_request", "gpu_type", "grace_s", "hold", "max_failures", "max_wait_s",
    "mem_limit_mb", "node_rules", "node_selector", "on_return", "once", "pool", "priority", "priority_class",
    "requeue", "secret_env", "tenant_id", "tolerations", "topology",
})  # fmt: skip
"""Of a job, those that `update_parameters` takes as `tgpu_pool` and so on, as the API has them."""
_OWN = frozenset({"array_parallelism", "signal_delay_s"})
_DEFAULT_TIMEOUT_MIN = 5
_DEFAULT_SIGNAL_DELAY_S = 90


class TgpuExecutor(core.Executor):
    """`max_num_timeout`: how often a checkpointable function goes on after its time limit. `python`: what
    runs it, by default the same interpreter."""

    job_class: type[core.Job[Any]] = TgpuJob

    def __init__(self, folder: str | Path, max_num_timeout: int = 3, python: str | None = None) -> None:
        super().__init__(folder)
        self.max_num_timeout = max_num_timeout
        self.python = python or sys.executable

    @classmethod
    def affinity(cls) -> int:
        """Whether there is a server: one that is named, or one on this machine. As much as submitit's own for
        Slurm, which comes first then; more than that if what it takes for Slurm is tgpu."""
        known = locate.candidates(os.environ)
        if not any(one.scheme != "unix" or Path(one.path).exists() for one in known):
            return -1
        return 3 if _srun_is_tgpu() else 2

    @classmethod
    def _valid_parameters(cls) -> set[str]:
        return {*FIELDS, *_OWN}

    def _internal_update_parameters(self, **kwargs: Any) -> None:  # noqa: ANN401  as the base class has it
        wrong = sorted(kwargs.keys() - _GENERIC - FIELDS - _OWN)
        if wrong:
            known = ", ".join(sorted(_GENERIC | FIELDS | _OWN))
            raise ValueError(f"tgpu's executor has no parameter {wrong[0]}; it has {known}")
        super()._internal_update_parameters(**kwargs)

    def _internal_process_submissions(
        self, delayed_submissions: list[DelayedSubmission]
    ) -> list[core.Job[Any]]:
        pickles = [self._written(delayed) for delayed in delayed_submissions]
        count, tasks = len(pickles), self._num_tasks()
        array = count > 1 and tasks == 1
        fields = self.job_fields(array=array)
        try:
            with Client() as client:
                if array:
                    at_once = self.parameters.get("array_parallelism")
                    fields["array"] = f"0-{count - 1}" + (f"%{at_once}" if at_once else "")
                    job_id = client.submit(**fields)["job_id"]
                    job_ids = [f"{job_id}_{index}" for index in range(count)]
                else:
                    job_ids = [str(number) for number in client.submit_many([fields] * count)]
        except BaseException:
            for pickle in pickles:
                pickle.unlink()
            raise
        jobs = [TgpuJob[Any](self.folder, job_id, range(tasks)) for job_id in job_ids]
        for job, pickle in zip(jobs, pickles, strict=True):
            job.paths.move_temporary_file(pickle, "submitted_pickle")
        return list(jobs)

    def _written(self, delayed: DelayedSubmission) -> Path:
        """Raises UnsafeFolderError where another user could replace what the job will unpickle."""
        path = JobPaths.get_first_id_independent_folder(self.folder) / f"{uuid.uuid4().hex}.pkl"
        private_folder.make(path.parent)
        delayed.set_timeout(self._timeout_min, self.max_num_timeout)
        path.touch(mode=0o600, exist_ok=False)
        delayed.dump(path)
        return path

    @property
    def _timeout_min(self) -> int:
        return int(self.parameters.get("timeout_min", _DEFAULT_TIMEOUT_MIN))

    def _num_tasks(self) -> int:
        return int(self.parameters.get("nodes", 1)) * int(self.parameters.get("tasks_per_node", 1))

    def job_fields(self, *, array: bool = False) -> dict[str, Any]:
        """The job, in the API's words, but for the indices of an array."""
        said = self.parameters
        limit_s = self._timeout_min * 60
        delay_s = min(int(said.get("signal_delay_s", _DEFAULT_SIGNAL_DELAY_S)), limit_s // 2)
        fields: dict[str, Any] = {
            "name": said.get("name", "submitit"),
            "cwd": here(os.environ),
            "submit_host": host(),
            **_resources(said),
            "time_limit_s": limit_s,
            "warn_signal": TgpuJobEnvironment.USR_SIG,
            "warn_s": delay_s,
            **{name: value for name, value in said.items() if name in FIELDS},
            **_output(self.folder, array=array, joined=bool(said.get("stderr_to_stdout"))),
            "command": [self.python, "-u", "-m", "submitit.core._submit", str(self.folder)],
        }
        if self._num_tasks() == 1:
            fields["failure_rules"] = [{"action": "ignore", "exit_codes": [ONCE_MORE]}]
        elif fields.get("requeue", True):
            fields["requeue_on_timeout"] = True
        env = exported(os.environ)
        for name in fields.get("secret_env", {}):
            env.pop(name, None)
        fields["env"] = {**env, **fields.get("env", {}), "SUBMITIT_EXECUTOR": self.name()}
        return fields


def _srun_is_tgpu() -> bool:
    """Whether `tgpu slurm install` has written it."""
    path = shutil.which("srun")
    try:
        return path is not None and b"tgpu.cli.slurm" in Path(path).read_bytes()[:1000]
    except OSError:
        return False


def _output(folder: Path, *, array: bool, joined: bool) -> dict[str, str]:
    """The files in which submitit looks for it, under the names that tgpu gives them."""
    signs = {"%j": "%A_%a" if array else "%j", "%t": "0" if array else "%a", "%A": "%A", "%a": "%a"}

    def pattern(path: Path) -> str:
        return re.sub("%.?", lambda found: signs.get(found[0], found[0].replace("%", "%%")), str(path))

    paths = JobPaths(folder)
    files = {"output": pattern(paths.stdout)}
    return files if joined else files | {"error": pattern(paths.stderr)}


def _resources(said: dict[str, Any]) -> dict[str, Any]:
    """Memory and GPUs are said by node there; here memory is by task."""
    nodes, per_node = int(said.get("nodes", 1)), int(said.get("tasks_per_node", 1))
    fields: dict[str, Any] = {}
    if "cpus_per_task" in said:
        fields["cpu_request"] = said["cpus_per_task"]
    if "mem_gb" in said:
        fields["mem_request_mb"] = int(said["mem_gb"] * 1024) // per_node
    if nodes * per_node > 1:
        fields |= {"nodes": nodes, "tasks_per_node": per_node}
    if said.get("gpus_per_node"):
        fields["gpus_per_node" if nodes * per_node > 1 else "gpu_request"] = said["gpus_per_node"]
    return fields
