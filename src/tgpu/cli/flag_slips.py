"""A flag that there is not: which one was meant, by its spelling or because another scheduler calls it so."""

from __future__ import annotations

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_ALIKE = 0.7  # below, a guess is worse than none

OF_OTHERS = {
    "--account": "--tenant",
    "-A": "--tenant",
    "-a": "--array",
    "--chdir": "--cwd",
    "--workdir": "--cwd",
    "-D": "--cwd",
    "--constraint": "--where",
    "-C": "--where",
    "--cpus-per-task": "--cpus",
    "-c": "--cpus",
    "--depends": "--after",
    "--depends-on": "--after",
    "-d": "--dependency",
    "-e": "--error",
    "--gpus-per-task": "--gpus",
    "-G": "--gpus",
    "--job-name": "--name",
    "-J": "--name",
    "--licenses": "--resource",
    "-L": "--resource",
    "--mem": "--memory",
    "-n": "--ntasks",
    "-N": "--nodes",
    "-o": "--output",
    "--partition": "--pool",
    "-p": "--pool",
    "--queue": "--pool",
    "--qos": "--class",
    "--time-limit": "--time",
    "--timeout": "--time",
    "--walltime": "--time",
    "-t": "--time",
}
"""What describes a job elsewhere, and what it is called here."""


def meant(
    unknown: str, after: str | None, known: Collection[str], elsewhere: Mapping[str, str]
) -> str | None:
    """What to type instead. `after` is the word behind the flag."""
    flag, _, value = unknown.partition("=")
    if not flag.startswith("--"):
        flag, value = flag[:2], flag[2:]
    if elsewhere and (said := _of_slurm(flag, value or after or "")):
        return said
    if flag in elsewhere:
        return elsewhere[flag]
    if not flag.startswith("--"):
        return None
    from difflib import get_close_matches  # noqa: PLC0415  only a slip needs it

    names = {name[2:]: name for name in known if name.startswith("--")}
    near = get_close_matches(flag[2:].replace("_", "-").lower(), names, n=1, cutoff=_ALIKE)
    return names[near[0]] if near else None


def _of_slurm(flag: str, value: str) -> str | None:
    """What is said here in another way, and not only by another name."""
    if flag == "--gres":
        kind, *more = value.split(":")
        number = more[-1] if more and more[-1].isdigit() else "1"
        model = f" --gpu-type {more[0]}" if more and not more[0].isdigit() else ""
        return f"--gpus {number}{model}" if kind == "gpu" else "--gpus N, or --resource NAME=N"
    return "-- COMMAND" if flag == "--wrap" else None
