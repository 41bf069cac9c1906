"""The settings about what tasks of this node can do to each other."""

from dataclasses import dataclass

from tgpu.config.setting import setting


@dataclass(frozen=True, kw_only=True)  # without slots: `Settings` has several such parts
class IsolationSettings:
    """A part of `Settings`."""

    task_pids: int = setting(
        8192, "How many processes and threads a task of this node may have at once; 0: as many as it likes."
    )
    user_pids: str = setting(
        "auto",
        "How many processes and threads a user may have at once on this node, with those of their login "
        "sessions, for a task to start another one; root and the agent's own user are not counted. `auto`: a "
        "quarter of what the kernel allows in all (pid_max, threads-max). 0: as many as there are.",
    )
    systemd_scope: str = setting(
        "auto",
        "`auto`: an agent that systemd has given no part of the cgroup tree (version 2), because it was "
        "started by hand, asks it for a scope of its own, so that limits hold. `off`: it stays where it was "
        "started.",
    )
    private_tmp: str = setting(
        "auto",
        "`auto`: where the agent is root, each task has a /tmp and a /dev/shm of its own, which are gone "
        "with it, unless its working directory lies in one of them. `off`: all share the machine's.",
    )
    shared_tmp: str = setting(
        "off",
        "`on`: a job may use the /tmp and /dev/shm of its node in place of private ones (`--shared-tmp`). "
        "`off`: such jobs are refused. Read by servers.",
    )
    failed_tmp_keep: str = setting(
        "1h",
        "How long a node keeps the private /tmp of a failed attempt for the job's user, in the folder "
        "`failed-tmp` of the home; `tgpu show` says where. 0: it is removed at once.",
    )
    failed_tmp_max: str = setting(
        "10G",
        "How much disk the kept /tmp directories of failed attempts may take on this node together; beyond "
        "that each user keeps an equal part, and the oldest of a user's are removed first.",
    )
    pin_cpus: str = setting(
        "auto",
        "`auto`: on a machine of several NUMA nodes, a task whose GPUs are all at one of them runs on that "
        "one's CPUs. `off`: tasks run on any.",
    )
    memory_reserve: str = setting(
        "auto",
        "When less memory than this is left on a node, such as `2G`, one of several tasks gives way: of "
        "those above their request that of the lowest class, then that furthest above. `auto`: a fiftieth of "
        "the node's memory, at least 64M and at most 2G. 0: nobody does.",
    )


ISOLATION_CHOICES = {
    "systemd_scope": ("auto", "off"),
    "private_tmp": ("auto", "off"),
    "shared_tmp": ("off", "on"),
    "pin_cpus": ("auto", "off"),
}
