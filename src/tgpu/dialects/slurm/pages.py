"""`scontrol show job`, `node` and `partition`: pages of KEY=VALUE, as scripts take them apart."""

from __future__ import annotations

from tgpu.dialects.slurm import hosts
from tgpu.dialects.slurm.durations import written_whole
from tgpu.dialects.slurm.job_columns import SHORT
from tgpu.dialects.slurm.node_columns import Part, features_of, gres_of, state_of
from tgpu.dialects.slurm.record import NOT_AVAILABLE, NULL, Record, epoch, moment

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


def job_page(record: Record, *, one_line: bool = False) -> str:
    """Ends with an empty line, so that several can be told apart."""
    job, said = record.job, record.said
    submitted = moment(epoch(job["submitted_at"]))
    eligible = moment(epoch(job.get("begin_at")) or epoch(job["submitted_at"]))
    array = ""
    if record.is_array:
        array = f" ArrayJobId={job['job_id']} ArrayTaskId={record.index.strip('[]') or job['array']}"
        array += f" ArrayTaskThrottle={job['at_once']}" if job.get("at_once") else ""
    limit = "UNLIMITED" if record.limit_s is None else written_whole(record.limit_s)
    dependency, group = SHORT["E"][1](record), record.group
    lines = [
        f"JobId={record.own_id}{array} JobName={job['name']}",
        f"UserId={job['user_id']}({record.user_id}) GroupId={group[0]}({group[1]}) MCS_label=N/A",
        (
            f"Priority={SHORT['Q'][1](record)} Nice={said.get('nice', '0')} "
            f"Account={record.account} QOS={record.qos}"
        ),
        f"JobState={record.state} Reason={record.reason} Dependency={dependency}",
        (
            f"Requeue={int(bool(job.get('requeue')))} Restarts={record.restarts} BatchFlag=1 Reboot=0 "
            f"ExitCode={record.exit_code}"
        ),
        f"RunTime={written_whole(record.elapsed_s)} TimeLimit={limit} TimeMin=N/A",
        f"SubmitTime={submitted} EligibleTime={eligible}",
        f"AccrueTime={eligible}",
        (
            f"StartTime={moment(record.expected_start_s)} EndTime={moment(record.expected_end_s)} "
            f"Deadline={moment(epoch(job.get('deadline_at')), NOT_AVAILABLE)}"
        ),
        "SuspendTime=None SecsPreSuspend=0 LastSchedEval=Unknown Scheduler=Main",
        f"Partition={record.partition} AllocNode:Sid={said.get('submit-host', 'tgpu')}:0",
        f"ReqNodeList={said.get('nodelist', NULL)} ExcNodeList={said.get('exclude', NULL)}",
        f"NodeList={record.node_list or NULL}",
        *([f"BatchHost={record.nodes[0]}"] if record.nodes else []),
        (
            f"NumNodes={record.node_count} NumCPUs={record.cpus} NumTasks={record.tasks} "
            f"CPUs/Task={record.cpus_per_task} ReqB:S:C:T=0:0:*:*"
        ),
        f"TRES={record.tres}",
        f"Socks/Node=* NtasksPerN:B:S:C={said.get('ntasks-per-node', '0')}:0:*:* CoreSpec=*",
        (
            f"MinCPUsNode={record.cpus_per_task} MinMemoryNode={record.memory} "
            f"MinTmpDiskNode={job.get('disk_request_mb') or 0}"
        ),
        f"Features={said.get('constraint', NULL)} DelayBoot=00:00:00",
        (
            f"OverSubscribe={SHORT['h'][1](record)} Contiguous=0 Licenses={said.get('licenses', NULL)} "
            "Network=(null)"
        ),
        f"Command={record.command.splitlines()[0]}",
        f"WorkDir={job.get('cwd') or NULL}",
        *([f"Comment={said['comment']}"] if "comment" in said else []),
        f"StdErr={record.file('error')}",
        "StdIn=/dev/null",
        f"StdOut={record.file('output')}",
        "Power=",
        *([f"TresPerNode={record.tres_per_node}"] if record.gpus else []),
    ]
    return " ".join(lines) if one_line else "\n   ".join(lines) + "\n"


def node_page(node: Mapping[str, Any], *, one_line: bool = False) -> str:
    state = state_of(node).upper()
    cpus, memory = int(float(node["cpu_total"])), int(node["mem_total_mb"])
    used = -(-int(float(node["cpu_allocated"]) * 1000) // 1000)
    gpus, given = float(node.get("gpu_total") or 0), float(node.get("gpu_allocated") or 0)
    drain = node.get("drain") or {}
    lines = [
        f"NodeName={node['node_id']} Arch=x86_64 CoresPerSocket={cpus}",
        f"CPUAlloc={used} CPUEfctv={cpus} CPUTot={cpus} CPULoad={float(node.get('cpu_used') or 0):.2f}",
        f"AvailableFeatures={features_of(node)}",
        f"ActiveFeatures={features_of(node)}",
        f"Gres={gres_of(node) or NULL}",
        f"NodeAddr={node['node_id']} NodeHostName={node['node_id']} Version=tgpu",
        (
            f"RealMemory={memory} AllocMem={node['mem_allocated_mb']} "
            f"FreeMem={max(0, memory - int(node.get('mem_used_mb') or 0))} Sockets=1 Boards=1"
        ),
        f"State={state} ThreadsPerCore=1 TmpDisk={node['disk_total_mb']} Weight=1 Owner=N/A MCS_label=N/A",
        f"Partitions={node['pool']}",
        f"CfgTRES=cpu={cpus},mem={memory}M,billing={cpus}" + (f",gres/gpu={gpus:g}" if gpus else ""),
        f"AllocTRES=cpu={used},mem={node['mem_allocated_mb']}M" + (f",gres/gpu={given:g}" if given else ""),
        *(
            [f"Reason={drain.get('reason') or 'drained'} [{drain.get('by')}@{drain.get('since')}]"]
            if drain
            else []
        ),
    ]
    return " ".join(lines) if one_line else "\n   ".join(lines) + "\n"


def partition_page(part: Part, *, one_line: bool = False) -> str:
    cpus = sum(int(float(node["cpu_total"])) for node in part.nodes)
    names = hosts.compressed(str(node["node_id"]) for node in part.nodes)
    lines = [
        f"PartitionName={part.pool}",
        "AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL",
        f"AllocNodes=ALL Default={'YES' if part.default else 'NO'} QoS=N/A",
        "DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO",
        "MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED",
        f"Nodes={names or NULL}",
        "PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO",
        "OverTimeLimit=NONE PreemptMode=REQUEUE",
        f"State=UP TotalCPUs={cpus} TotalNodes={len(part.nodes)} SelectTypeParameters=NONE",
    ]
    return " ".join(lines) if one_line else "\n   ".join(lines) + "\n"


def parts_of(nodes: Sequence[Mapping[str, Any]]) -> list[Part]:
    """A part for every pool; the only one, or that called default, is the default."""
    pools = sorted({str(node["pool"]) for node in nodes})
    return [
        Part(
            pool,
            [node for node in nodes if node["pool"] == pool],
            default=pool == "default" or len(pools) == 1,
        )
        for pool in pools
    ]
