"""The flags that describe a job (of `submit` and `run`), and the job that they and a file describe."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tgpu.cli import command_words, selectors
from tgpu.cli.exits import UsageError
from tgpu.cli.fields import CLASSES, ON_RETURN, OPEN_MODES, PULLS, field_of, job_fields, pairs
from tgpu.cli.file_fields import FILE_FLAGS
from tgpu.cli.flag_slips import OF_OTHERS
from tgpu.cli.series_fields import SERIES_FLAGS, SERIES_SWITCHES
from tgpu.cli.time_fields import TIME_FLAGS, TIME_REPEATED, TIME_SWITCHES
from tgpu.client import Client
from tgpu.client.surroundings import exported, here, host

if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from tgpu.cli.arguments import Parser

# What a flag is called in the namespace is what its field is called in a file.
_FLAGS = (
    ("--gpus", "gpus", "N", "GPUs; 0.25 is a quarter of one"),
    ("--gpu-type", "gpu_type", "MODEL", "only GPUs of this model, such as A100"),
    ("--gpu-memory", "gpu_memory", "SIZE", "each GPU has so much; without --gpus: so much of one, shared"),
    ("--cpus", "cpus", "N", "CPUs (default: 1)"),
    ("--memory", "memory", "SIZE", "memory, such as 16G; a bare number is MiB"),
    ("--cpu-limit", "cpu_limit", "N", "CPUs that it may use at most (default: as --cpus)"),
    ("--memory-limit", "memory_limit", "SIZE", "memory that it may use at most (default: as --memory)"),
    ("--disk", "disk", "SIZE", "disk, such as 10G"),
    ("--priority", "priority", "N", "higher is served first among your class (default: 0)"),
    ("--class", "class", "CLASS", "real-time, high, default, low or best-effort"),
    ("--time", "time", "DURATION", "stop it after this, such as 2h or 1-12:00:00; a bare number is seconds"),
    ("--max-wait", "max_wait", "DURATION", "give up if it has not started after this"),
    ("--grace", "grace", "DURATION", "from SIGTERM to SIGKILL when it is stopped"),
    ("--stop-signal", "stop_signal", "SIGNAL", "what it gets instead of SIGTERM, such as USR1 or INT"),
    (
        "--signal",
        "signal",
        "[main:]SIG[@S]",
        "warn it S seconds (60) before its time limit, all of it or its main process",
    ),
    ("--image", "image", "IMAGE", "run it in a container of this image"),
    ("--shm-size", "shm_size", "SIZE", "shared memory of the container, such as 8G (default: 64M)"),
    ("--network", "network", "NET", "network of the container: bridge, host, none, or as your site has it"),
    ("--pull", "pull", "WHEN", "fetch the image always, if it is missing (default), or never"),
    ("--name", "name", "NAME", "a name to find it by"),
    ("--tenant", "tenant", "TENANT", "on whose account"),
    ("--pool", "pool", "POOL", "only nodes of this pool"),
    ("--cwd", "cwd", "DIR", "where it runs (default: here)"),
    ("--nodes", "nodes", "N", "on so many nodes, which start together: one task on each, unless said"),
    ("--gpus-per-node", "gpus_per_node", "N", "with --nodes: GPUs on each, shared by its tasks"),
    ("--ntasks", "ntasks", "N", "so many tasks in all, which start together"),
    ("--ntasks-per-node", "ntasks_per_node", "N", "so many on each node with --nodes, else at most"),
    ("--topology", "topology", "LABEL", "all its nodes have one value of this label, such as rack"),
    *FILE_FLAGS,
    *TIME_FLAGS,
    *SERIES_FLAGS,
)
_REPEATED = (
    ("--mount", "mount", "SRC:DST[:ro]", "a path of the node in the container; repeatable"),
    ("--node-selector", "node_selector", "K=V", "only nodes with this label; repeatable"),
    (
        "--where",
        "where",
        "EXPR",
        "only nodes with labels like `zone in (a,b)`, `!spot`, `mem>=40`; repeatable",
    ),
    ("--tolerate", "tolerate", "KEY[=VALUE]", "nodes with this taint will do, `*`: with any; repeatable"),
    ("--resource", "resource", "NAME=N", "so many of a named resource, such as a licence; repeatable"),
    (
        "--secret",
        "secret",
        "VAR=NAME",
        "a variable with a secret in it (`tgpu secret`), or VAR=file:/PATH on its node; repeatable",
    ),
    *TIME_REPEATED,
)
_NOT_EXPORTED_HINT = "send only --env, not the caller's environment"


def add_job_flags(parser: Parser) -> None:
    parser.elsewhere = OF_OTHERS
    for flag, dest, metavar, doc in _FLAGS:
        choices = {"class": CLASSES, "pull": PULLS, "open_mode": OPEN_MODES}.get(
            dest
        )  # which shells complete too
        parser.add_argument(flag, dest=dest, metavar=metavar, help=doc, choices=choices)
    parser.add_argument("--env", action="append", metavar="K=V", help="a variable for the job; repeatable")
    parser.add_argument(
        "--export-env",
        action="store_true",
        default=None,
        help="send the caller's environment (default, unless the job has an image)",
    )
    parser.add_argument("--no-export-env", dest="export_env", action="store_false", help=_NOT_EXPORTED_HINT)
    for flag, dest, metavar, doc in _REPEATED:
        parser.add_argument(flag, dest=dest, action="append", metavar=metavar, help=doc)
    parser.add_argument(
        "--read-only",
        action="store_true",
        default=None,
        help="the container can write to its mounts and /tmp alone",
    )
    parser.add_argument("--exclusive", action="store_true", default=None, help="a whole node for it alone")
    parser.add_argument(
        "--no-requeue",
        dest="requeue",
        action="store_false",
        default=None,
        help="never try it again: if its machine dies or it gives way, it has failed",
    )
    parser.add_argument(
        "--once",
        action="store_true",
        default=None,
        help="never two live attempts: frozen while its node is cut off from all servers; it may start again "
        "elsewhere",
    )
    parser.add_argument(
        "--pty", action="store_true", default=None, help="give it a terminal of its own: `tgpu attach`"
    )
    parser.add_argument(
        "--shared-tmp",
        action="store_true",
        default=None,
        help="use the node's own /tmp instead of a private one, where the setting shared_tmp allows it",
    )
    parser.add_argument(
        "--on-return",
        dest="on_return",
        choices=ON_RETURN,
        help="when a lost node is heard again: keep who has run longest (default) or the replacement",
    )
    parser.add_argument(
        "--keep-going",
        dest="fail_together",
        action="store_false",
        default=None,
        help="of several tasks: if one fails or is lost, the others go on",
    )
    for flag, dest, doc in (*TIME_SWITCHES, *SERIES_SWITCHES):
        parser.add_argument(flag, dest=dest, action="store_true", default=None, help=doc)
    parser.add_argument(
        "--snapshot",
        action="store_true",
        default=None,
        help="copy the code here now, and run it in the copy (default: as the setting snapshots says)",
    )
    parser.add_argument(
        "--no-snapshot", dest="snapshot", action="store_false", help="run what is there when it starts"
    )
    parser.add_argument(
        "-f",
        "--file",
        action="append",
        metavar="FILE",
        help="jobs from a YAML file; flags override it; repeatable: all of them are submitted, or none",
    )
    parser.add_argument("words", nargs="...", metavar="[--] COMMAND", help="a script, or -- and a command")


def jobs(args: Namespace, after_dashes: list[str] | None) -> list[dict[str, Any]]:
    """Every job described, ready for the API."""
    if after_dashes is not None and args.words:
        raise UsageError(f"{args.words[0]!r} before `--` is neither a flag nor a command")
    for word in args.words[:1]:
        if word.endswith((".yaml", ".yml")) and Path(word).is_file():
            raise UsageError(f"{word} is a job file, and no script: say -f {word}")
    if args.words and args.cwd is None and args.image is None and args.file is None:
        command_words.check_there(args.words)
    if args.words and args.file is None and (described := _from_slurm(args)):
        return [_complete(described, _given(args), args)]
    flags = _given(args)
    if after_dashes:
        flags["command"] = command_words.command(after_dashes)
    elif args.words:
        flags["command"] = command_words.script(args.words)
    several = _from_file(args.file)
    if len(several) > 1 and "name" in flags:
        raise UsageError(
            f"--name renames them all: leave it out, for {', '.join(args.file)} has {len(several)} jobs"
        )
    return [_complete(job, flags, args) for job in several]


def swallowed_flag(words: list[str]) -> str | None:
    """A flag of ours among a script's own arguments: perhaps meant for us."""
    known = {flag for flag, *_ in (*_FLAGS, *_REPEATED)}
    return next((word for word in words[1:] if word.partition("=")[0] in known), None)


def flag_for(field: str, args: Namespace) -> str | None:
    """The flag that was typed for this field of the API, if one was."""
    return next((flag for dest, flag in _flags_for(field) if getattr(args, dest) is not None), None)


def any_flag_for(field: str) -> str | None:
    """The flag for this field of the API, whether or not it was typed."""
    return next((flag for _, flag in _flags_for(field)), None)


def _flags_for(field: str) -> list[tuple[str, str]]:
    known = (*_FLAGS, *_REPEATED, *TIME_SWITCHES, *SERIES_SWITCHES)
    return [(dest, flag) for flag, dest, *_ in known if field_of(dest) == field]


def _given(args: Namespace) -> dict[str, Any]:
    names = [dest for _, dest, _, _ in (*_FLAGS, *_REPEATED)]
    names += ["exclusive", "read_only", "requeue", "once", "pty", "shared_tmp", "on_return", "fail_together"]
    names += [dest for _, dest, _ in (*TIME_SWITCHES, *SERIES_SWITCHES)]
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    given |= {name: _by_number(given[name]) for _, name, _, _ in TIME_REPEATED if name in given}
    return job_fields(given, "--") if given else {}


def _by_number(needs: list[str]) -> list[str]:
    """Who says `last` means the last job there is now."""
    if not selectors.names_last(needs):
        return needs
    with Client() as client:
        return selectors.needs_by_number(client, needs)


def _from_slurm(args: Namespace) -> dict[str, Any] | None:
    """Of a script with `#SBATCH` lines, what those say."""
    from tgpu.cli import slurm_script  # noqa: PLC0415  only who submits a script

    return slurm_script.fields(args) if slurm_script.is_one(args.words) else None


def _from_file(paths: list[str] | None) -> list[dict[str, Any]]:
    if paths is None:
        return [{}]
    from tgpu.cli import jobfile  # noqa: PLC0415  PyYAML only for who uses it

    return jobfile.read(paths)


def _nothing_to_run(job: dict[str, Any], args: Namespace) -> str:
    if not args.file:
        return "nothing to run: write `-- python train.py`, a script, or -f job.yaml"
    whose = f"job {job['name']!r} of " if job.get("name") else ""
    return f"nothing to run: {whose}{', '.join(args.file)} has no command: write `command: python train.py`"


def _complete(job: dict[str, Any], flags: dict[str, Any], args: Namespace) -> dict[str, Any]:
    whole = {**job, **flags}
    each = whole.get("groups") or [whole]
    if not whole.get("command") and not all(
        group.get("command") or group.get("image", whole.get("image")) for group in each
    ):
        raise UsageError(_nothing_to_run(job, args))
    if whole.get("image"):
        whole.setdefault("command", [])  # then the image says what runs
    # An image has an environment of its own, in which paths of this machine would be wrong.
    exports = args.export_env if args.export_env is not None else not whole.get("image")
    env = exported(os.environ) if exports else {}
    for name in whole.get("secret_env", {}):
        env.pop(name, None)  # that is why it is given as a secret
    typed = pairs("--env", args.env or {})
    whole["env"] = {**env, **pairs("env", job.get("env", {})), **typed}
    if typed and whole.get("annotations"):
        from tgpu.dialects.kubernetes.itself import overridden  # noqa: PLC0415  only who has a manifest

        whole["annotations"] = overridden(whole["annotations"], typed)
    if whole.get("pty"):
        whole["env"].setdefault("TERM", os.environ.get("TERM") or "xterm")
    whole["cwd"] = str(Path(_here(), str(whole.get("cwd", ""))))
    whole["submit_host"] = host()
    return whole


def _here() -> str:
    try:
        return here(os.environ)
    except OSError:
        raise UsageError("the current directory is gone; say --cwd DIR") from None
