"""What a task finds in its environment if its job came in Slurm's words: the `SLURM_*` family."""

import os
from collections.abc import Mapping, Sequence

from tgpu.dialects.slurm.array_ids import own_id
from tgpu.dialects.slurm.hosts import repeated
from tgpu.domain.dialect import DialectName
from tgpu.domain.ids import AttemptId
from tgpu.protocol.messages import Launch

_CLUSTER = "tgpu"
_AS_SAID = {
    "account": "SLURM_JOB_ACCOUNT",
    "reservation": "SLURM_JOB_RESERVATION",
    "dependency": "SLURM_JOB_DEPENDENCY",
    "export": "SLURM_EXPORT_ENV",
    "wckey": "SLURM_WCKEY",
    "cpus-per-task": "SLURM_CPUS_PER_TASK",
    "cpus-per-gpu": "SLURM_CPUS_PER_GPU",
    "gpus": "SLURM_GPUS",
    "gpus-per-node": "SLURM_GPUS_PER_NODE",
    "gpus-per-task": "SLURM_GPUS_PER_TASK",
    "ntasks-per-node": "SLURM_NTASKS_PER_NODE",
    "ntasks-per-gpu": "SLURM_NTASKS_PER_GPU",
    "mem-per-cpu": "SLURM_MEM_PER_CPU",
    "mem-per-gpu": "SLURM_MEM_PER_GPU",
    "overcommit": "SLURM_OVERCOMMIT",
    "distribution": "SLURM_DISTRIBUTION",
    "threads-per-core": "SLURM_THREADS_PER_CORE",
    "profile": "SLURM_PROFILE",
    "gpu-bind": "SLURM_GPU_BIND",
    "gpu-freq": "SLURM_GPU_FREQ",
    "submit-dir": "SLURM_SUBMIT_DIR",
    "submit-host": "SLURM_SUBMIT_HOST",
}
"""Set only if it was said."""
_OF_ARRAYS = {
    "TGPU_ARRAY_INDEX": "SLURM_ARRAY_TASK_ID",
    "TGPU_ARRAY_COUNT": "SLURM_ARRAY_TASK_COUNT",
    "TGPU_ARRAY_MIN": "SLURM_ARRAY_TASK_MIN",
    "TGPU_ARRAY_MAX": "SLURM_ARRAY_TASK_MAX",
    "TGPU_ARRAY_STEP": "SLURM_ARRAY_TASK_STEP",
}
_COUNTING_TASKS = ("ntasks", "ntasks-per-node", "ntasks-per-gpu")
_COUNTING_GPUS = ("gpus", "gpus-per-node", "gres")


def slurm_variables(
    launch: Launch, own: Mapping[str, str], node: str, hosts: Sequence[str] = (), all_cpu_milli: int = 0
) -> dict[str, str]:
    """Nothing for jobs in other words. `own`: what the task finds anyway. `hosts`: where its nodes are
    reached. `all_cpu_milli`: what this node has."""
    if launch.dialect is None or launch.dialect.name is not DialectName.SLURM:
        return {}
    attempt, said = AttemptId.parse(launch.attempt), launch.dialect.annotations
    index = own.get("TGPU_ARRAY_INDEX")
    job_id = str(attempt.job_id if index is None else own_id(attempt.job_id, int(index)))
    found = {name: said[key] for key, name in _AS_SAID.items() if key in said}
    found |= {
        "ENVIRONMENT": "BATCH",
        "SLURM_CLUSTER_NAME": _CLUSTER,
        "SLURM_JOB_ID": job_id,
        "SLURM_JOBID": job_id,
        "SLURM_JOB_NAME": launch.job_name,
        "SLURM_JOB_USER": launch.user,
        "SLURM_JOB_PARTITION": said.get("partition", "default"),
        "SLURM_JOB_QOS": said.get("qos", "normal"),
        "SLURM_PRIO_PROCESS": "0",
        "SLURM_NODEID": "0",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_GTIDS": "0",
    }
    most_milli = launch.cpu_milli if launch.cpu_limit_milli else max(launch.cpu_milli, all_cpu_milli)
    found |= _of_nodes(said, node, hosts, max(1, most_milli // 1000))
    if attempt.number > 1:
        found["SLURM_RESTART_COUNT"] = str(attempt.number - 1)
    if launch.devices:
        found["SLURM_GPUS_ON_NODE"] = str(len(launch.devices))
        found["SLURM_JOB_GPUS"] = ",".join(map(str, launch.devices))
    if "mem" in said:
        found["SLURM_MEM_PER_NODE"] = str(launch.memory_mib)
    if index is not None:
        found |= {name: own[key] for key, name in _OF_ARRAYS.items() if key in own}
        found["SLURM_ARRAY_JOB_ID"] = str(attempt.job_id)
    return found


def own_host(node: str) -> str:
    """Where this machine is reached: by its name, for a node may be called anything."""
    host = os.uname().nodename
    return node if node == host.partition(".")[0] else host


def _of_nodes(said: Mapping[str, str], node: str, hosts: Sequence[str], cpus: int) -> dict[str, str]:
    """`cpus`: which each of them has; all, if nothing limits it, as of a whole node."""
    count, tasks = max(1, _number(said, "nodes")), max(1, _number(said, "tasks"))
    each, more = divmod(tasks, count)
    names = ",".join(hosts) or node
    found = {
        "SLURMD_NODENAME": node,
        "SLURM_TOPOLOGY_ADDR": node,
        "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
        "SLURM_NNODES": str(count),
        "SLURM_JOB_NUM_NODES": str(count),
        "SLURM_NODELIST": names,
        "SLURM_JOB_NODELIST": names,
        "SLURM_CPUS_ON_NODE": str(cpus),
        "SLURM_JOB_CPUS_PER_NODE": repeated([cpus] * count),
        "SLURM_TASKS_PER_NODE": repeated([each + (at < more) for at in range(count)]),
    }
    if _says_how_many_tasks(said):  # as in Slurm, where programs look whether it is there
        found |= {"SLURM_NTASKS": str(tasks), "SLURM_NPROCS": str(tasks)}
    return found


def _says_how_many_tasks(said: Mapping[str, str]) -> bool:
    """Or how many GPUs there are, and how many a task has."""
    by_gpus = "gpus-per-task" in said and any(key in said for key in _COUNTING_GPUS)
    return by_gpus or any(key in said for key in _COUNTING_TASKS)


def _number(said: Mapping[str, str], key: str) -> int:
    text = said.get(key, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0  # noqa: PLR2004
