"""Every option of `sbatch`, and what becomes of it here. `docs/slurm.md` is checked against this table."""

from __future__ import annotations

from tgpu.dialects.slurm.options import NONE, OPTIONAL, VALUE, Option, Options

HONOURED = "honoured"
"""It does what it does in Slurm."""
TRANSLATED = "translated"
"""It becomes what is nearest to it here; the note says what that is."""
MEANINGLESS = "no effect"
"""Nothing here is like it, and a job is right without it: accepted, with a warning."""
REFUSED = "refused"
"""A job without it would not be what was asked for."""


class Flag(Option):
    """An option, the environment variable that stands for it, and what becomes of it."""

    __slots__ = ("fate", "note", "variable")

    def __init__(  # noqa: PLR0917  a line of a table
        self, name: str, letter: str, takes: str, variable: str, fate: str, note: str
    ) -> None:
        super().__init__(name, letter, takes)
        self.variable, self.fate, self.note = variable, fate, note


_PLACE = "where tasks run inside a node is left to the kernel"
FLAGS = tuple(
    Flag(*line)
    for line in (
        ("account", "A", VALUE, "SBATCH_ACCOUNT", TRANSLATED, "the tenant of this name, or whose path ends with it; with one tenant alone it has no effect"),
        ("acctg-freq", "", VALUE, "SBATCH_ACCTG_FREQ", MEANINGLESS, "use is measured anyway"),
        ("array", "a", VALUE, "SBATCH_ARRAY_INX", HONOURED, "with steps and %N"),
        ("batch", "", VALUE, "SBATCH_BATCH", MEANINGLESS, "the script runs on the first node"),
        ("bb", "", VALUE, "SBATCH_BURST_BUFFER", REFUSED, "there are no burst buffers: copy files in the script"),
        ("bbf", "", VALUE, "", REFUSED, "there are no burst buffers: copy files in the script"),
        ("begin", "b", VALUE, "", HONOURED, "in the time zone of whoever submits"),
        ("chdir", "D", VALUE, "", HONOURED, ""),
        ("cluster-constraint", "", VALUE, "SBATCH_CLUSTER_CONSTRAINT", REFUSED, "there is one cluster; TGPU_SERVER says which"),
        ("clusters", "M", VALUE, "SBATCH_CLUSTERS", REFUSED, "there is one cluster; TGPU_SERVER says which"),
        ("comment", "", VALUE, "", HONOURED, "shown by squeue, sacct and scontrol"),
        ("consolidate-segments", "", NONE, "", MEANINGLESS, "nodes are not counted in segments"),
        ("constraint", "C", VALUE, "SBATCH_CONSTRAINT", TRANSLATED, "labels of nodes: a&b are two that the node has, a|b and counts are refused"),
        ("container", "", VALUE, "SBATCH_CONTAINER", REFUSED, "OCI bundles are not run; tgpu submit --image runs images"),
        ("container-id", "", VALUE, "SBATCH_CONTAINER_ID", REFUSED, "OCI bundles are not run; tgpu submit --image runs images"),
        ("contiguous", "", NONE, "", MEANINGLESS, "nodes have no order"),
        ("core-spec", "S", VALUE, "SBATCH_CORE_SPEC", MEANINGLESS, "no cores are set apart"),
        ("cores-per-socket", "", VALUE, "", MEANINGLESS, _PLACE),
        ("cpu-freq", "", VALUE, "SBATCH_CPU_FREQ_REQ", MEANINGLESS, "frequencies are left alone"),
        ("cpus-per-gpu", "", VALUE, "SBATCH_CPUS_PER_GPU", HONOURED, ""),
        ("cpus-per-task", "c", VALUE, "", HONOURED, ""),
        ("deadline", "", VALUE, "", HONOURED, "in the time zone of whoever submits"),
        ("delay-boot", "", VALUE, "SBATCH_DELAY_BOOT", MEANINGLESS, "nodes are not booted for jobs"),
        ("dependency", "d", VALUE, "", TRANSLATED, "afterok, afternotok, afterany, aftercorr and singleton, all of which must hold; `?`, after (a start) and single indices of arrays are refused"),
        ("distribution", "m", VALUE, "SBATCH_DISTRIBUTION", MEANINGLESS, "tasks fill one node after the other"),
        ("error", "e", VALUE, "SBATCH_ERROR", HONOURED, "without it, with the output"),
        ("exclude", "x", VALUE, "", HONOURED, ""),
        ("exclusive", "", OPTIONAL, "SBATCH_EXCLUSIVE", TRANSLATED, "a whole node with all its GPUs, also with =user, =mcs and =topo; if nodes have different numbers of GPUs, the smallest number"),
        ("export", "", VALUE, "SBATCH_EXPORT", TRANSLATED, "ALL leaves out what ties the environment to a terminal, a login or another job"),
        ("export-file", "", VALUE, "", HONOURED, "a file, not a descriptor"),
        ("external", "", NONE, "", REFUSED, "a job without a script has nothing to run here"),
        ("extra", "", VALUE, "", MEANINGLESS, "nothing filters nodes by it"),
        ("extra-node-info", "B", VALUE, "", MEANINGLESS, _PLACE),
        ("get-user-env", "", OPTIONAL, "SBATCH_GET_USER_ENV", MEANINGLESS, "no login shell is started; use #!/bin/bash -l"),
        ("gid", "", VALUE, "", REFUSED, "a job has the groups of its user"),
        ("gpu-bind", "", VALUE, "SBATCH_GPU_BIND", MEANINGLESS, "--gpus-per-task gives each task its own"),
        ("gpu-freq", "", VALUE, "SBATCH_GPU_FREQ", MEANINGLESS, "frequencies are left alone"),
        ("gpus", "G", VALUE, "SBATCH_GPUS", HONOURED, "in all; with several nodes, as many on each"),
        ("gpus-per-node", "", VALUE, "SBATCH_GPUS_PER_NODE", HONOURED, ""),
        ("gpus-per-socket", "", VALUE, "SBATCH_GPUS_PER_SOCKET", REFUSED, "sockets are not counted: say --gpus-per-node"),
        ("gpus-per-task", "", VALUE, "SBATCH_GPUS_PER_TASK", HONOURED, ""),
        ("gres", "", VALUE, "SBATCH_GRES", TRANSLATED, "gpu[:type][:n] are GPUs, mps:n is n hundredths of one, any other name a named resource; shard is refused"),
        ("gres-flags", "", VALUE, "SBATCH_GRES_FLAGS", MEANINGLESS, "CPUs next to the GPUs are the setting pin_cpus"),
        ("help", "h", NONE, "", HONOURED, ""),
        ("hint", "", VALUE, "SBATCH_HINT", MEANINGLESS, _PLACE),
        ("hold", "H", NONE, "", HONOURED, ""),
        ("ignore-pbs", "", NONE, "SBATCH_IGNORE_PBS", MEANINGLESS, "#PBS lines are comments anyway"),
        ("input", "i", VALUE, "SBATCH_INPUT", HONOURED, "without % in its name"),
        ("job-name", "J", VALUE, "SBATCH_JOB_NAME", HONOURED, ""),
        ("kill-on-invalid-dep", "", VALUE, "", TRANSLATED, "a job whose dependency can never be met is CANCELLED at once, also with no"),
        ("licenses", "L", VALUE, "", TRANSLATED, "named resources of the cluster; name@server is refused"),
        ("mail-type", "", VALUE, "", MEANINGLESS, "no mail is sent; tgpu wait waits"),
        ("mail-user", "", VALUE, "", MEANINGLESS, "no mail is sent; tgpu wait waits"),
        ("mcs-label", "", VALUE, "", MEANINGLESS, "there are no security labels"),
        ("mem", "", VALUE, "SBATCH_MEM_PER_NODE", HONOURED, "0: nothing is reserved, and there is no limit"),
        ("mem-bind", "", VALUE, "SBATCH_MEM_BIND", MEANINGLESS, _PLACE),
        ("mem-per-cpu", "", VALUE, "SBATCH_MEM_PER_CPU", HONOURED, ""),
        ("mem-per-gpu", "", VALUE, "SBATCH_MEM_PER_GPU", HONOURED, ""),
        ("mincpus", "", VALUE, "", HONOURED, "on each node"),
        ("network", "", VALUE, "SBATCH_NETWORK", MEANINGLESS, "networks are not given out"),
        ("nice", "", OPTIONAL, "", TRANSLATED, "priority, lower by so much"),
        ("no-kill", "k", OPTIONAL, "SBATCH_NO_KILL", TRANSLATED, "tasks of a lost node are replaced, and the others go on"),
        ("no-requeue", "", NONE, "SBATCH_NO_REQUEUE", HONOURED, ""),
        ("nodefile", "F", VALUE, "", HONOURED, ""),
        ("nodelist", "w", VALUE, "", HONOURED, "all of these nodes, and no others"),
        ("nodes", "N", VALUE, "", TRANSLATED, "of a range, the smaller number"),
        ("ntasks", "n", VALUE, "", TRANSLATED, "without --nodes, all on one node, or on as few as can hold them"),
        ("ntasks-per-core", "", VALUE, "", MEANINGLESS, _PLACE),
        ("ntasks-per-gpu", "", VALUE, "", HONOURED, ""),
        ("ntasks-per-node", "", VALUE, "", HONOURED, ""),
        ("ntasks-per-socket", "", VALUE, "", MEANINGLESS, _PLACE),
        ("oom-kill-step", "", OPTIONAL, "", MEANINGLESS, "memory that runs out ends the task"),
        ("open-mode", "", VALUE, "SBATCH_OPEN_MODE", HONOURED, ""),
        ("output", "o", VALUE, "SBATCH_OUTPUT", TRANSLATED, "%j %J %A %a %x %N %u %%; %n %t are 0, %s is batch; of an array %j is %A_%a; %3a is filled up with zeros"),
        ("overcommit", "O", NONE, "SBATCH_OVERCOMMIT", HONOURED, "CPUs of one task on each node"),
        ("oversubscribe", "s", NONE, "", MEANINGLESS, "nodes are shared anyway, and what is reserved is not"),
        ("parsable", "", NONE, "", HONOURED, ""),
        ("partition", "p", VALUE, "SBATCH_PARTITION", TRANSLATED, "the pool of this name; of several, the first that there is; with one pool alone it has no effect"),
        ("power", "", VALUE, "SBATCH_POWER", MEANINGLESS, "power is left alone"),
        ("prefer", "", VALUE, "", MEANINGLESS, "labels are needed or not: say --constraint"),
        ("priority", "", VALUE, "", TRANSLATED, "priority among your jobs' class; TOP is refused"),
        ("profile", "", VALUE, "SBATCH_PROFILE", MEANINGLESS, "use is measured anyway"),
        ("propagate", "", OPTIONAL, "", MEANINGLESS, "limits are those of the node"),
        ("qos", "q", VALUE, "SBATCH_QOS", TRANSLATED, "the priority class of this name, normal being default; any other has no effect"),
        ("quiet", "Q", NONE, "", HONOURED, ""),
        ("reboot", "", NONE, "", REFUSED, "nodes are not booted for jobs"),
        ("requeue", "", NONE, "SBATCH_REQUEUE", HONOURED, ""),
        ("reservation", "", VALUE, "SBATCH_RESERVATION", MEANINGLESS, "whoever a window is for gets into it anyway"),
        ("resv-ports", "", OPTIONAL, "", MEANINGLESS, "ports are not given out"),
        ("segment", "", VALUE, "", MEANINGLESS, "nodes are not counted in segments"),
        ("signal", "", VALUE, "SBATCH_SIGNAL", TRANSLATED, "B: to the script alone, else to all that handle it; R: has no effect"),
        ("sockets-per-node", "", VALUE, "", MEANINGLESS, _PLACE),
        ("spread-job", "", NONE, "SBATCH_SPREAD_JOB", MEANINGLESS, "how jobs are placed is the house's policy"),
        ("spread-segments", "", NONE, "", MEANINGLESS, "nodes are not counted in segments"),
        ("stepmgr", "", NONE, "", MEANINGLESS, "steps are the job's own processes"),
        ("switches", "", VALUE, "SBATCH_REQ_SWITCH", MEANINGLESS, "tgpu submit --topology keeps a job together"),
        ("test-only", "", NONE, "", REFUSED, "submit it, and ask tgpu why"),
        ("thread-spec", "", VALUE, "SBATCH_THREAD_SPEC", MEANINGLESS, "no cores are set apart"),
        ("threads-per-core", "", VALUE, "SBATCH_THREADS_PER_CORE", MEANINGLESS, _PLACE),
        ("time", "t", VALUE, "SBATCH_TIMELIMIT", HONOURED, "to the second"),
        ("time-min", "", VALUE, "", MEANINGLESS, "a limit is not lowered"),
        ("tmp", "", VALUE, "", TRANSLATED, "disk that is reserved"),
        ("tres-bind", "", VALUE, "", MEANINGLESS, "--gpus-per-task gives each task its own"),
        ("tres-per-task", "", VALUE, "", TRANSLATED, "cpu=n and gres/gpu[:type]=n; any other is refused"),
        ("uid", "", VALUE, "", TRANSLATED, "an administrator may submit for another user"),
        ("usage", "", NONE, "", HONOURED, ""),
        ("use-min-nodes", "", NONE, "SBATCH_USE_MIN_NODES", MEANINGLESS, "of a range the smaller number is taken anyway"),
        ("verbose", "v", NONE, "SBATCH_DEBUG", MEANINGLESS, "there is nothing more to say"),
        ("version", "V", NONE, "", HONOURED, ""),
        ("wait", "W", NONE, "SBATCH_WAIT", HONOURED, ""),
        ("wait-all-nodes", "", VALUE, "SBATCH_WAIT_ALL_NODES", MEANINGLESS, "nodes start together anyway"),
        ("wckey", "", VALUE, "SBATCH_WCKEY", MEANINGLESS, "nothing is accounted by it"),
        ("wrap", "", VALUE, "", HONOURED, ""),
        ("x11", "", OPTIONAL, "", REFUSED, "no display is forwarded"),
    )
)  # fmt: skip
BY_NAME = {flag.name: flag for flag in FLAGS}
ALIASES = {
    "share": "oversubscribe",
    "workdir": "chdir",
    "gpu": "gpus",
    "tasks": "ntasks",
    "tasks-per-node": "ntasks-per-node",
}
"""Names that Slurm had, or takes."""
KNOWN = Options(FLAGS, ALIASES)
