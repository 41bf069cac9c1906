"""`srun` and `salloc` outside of a job: a job of its own, whose output and exit code are theirs."""

from __future__ import annotations

import shlex
import sys

from tgpu.cli import detach_keys, once_per_user, outcome
from tgpu.cli.running import to_its_end
from tgpu.cli.screen import note
from tgpu.cli.slurm import preparing, standard_input
from tgpu.cli.slurm.main import warn
from tgpu.client import Client
from tgpu.dialects.slurm.flag_table import BY_NAME
from tgpu.dialects.slurm.step_flag_table import STEP_FLAGS

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tgpu.cli.slurm.preparing import Prepared

_KEYS = "ctrl-p,ctrl-q"
_OF_STEPS = frozenset(flag.name for flag in STEP_FLAGS) | {"wait"}
_AT_ONCE_S = 1
_REDIRECTED = 'exec "$@" <"$0"'


def run(options: Sequence[str], said: dict[str, str | None], words: Sequence[str]) -> int:
    pty = "pty" in said
    if "input" not in said and not pty and (path := standard_input.file_of("srun")) is not None:
        said = {**said, "input": path}
    source = preparing.Source(words[0].rpartition("/")[2], "", _script(options, words))
    job = preparing.prepared(source, [], [], shared(said), directives=False)
    if job.layout.tasks == 1:  # which needs no step
        path = said.get("input") or ""
        job.fields["command"] = [*(["/bin/sh", "-c", _REDIRECTED, path] if path else []), *words]
    return carried_out("srun", job, said, pty=pty)


def carried_out(program: str, job: Prepared, said: dict[str, str | None], *, pty: bool) -> int:
    """Submitted, shown and waited for. `pty`: with a terminal of its own."""
    fields, quiet = job.fields, "quiet" in said
    if "output" not in said:
        fields.pop("output", None)  # it is shown here
    if pty:
        fields["pty"] = True
        fields["env"].setdefault("TERM", "xterm")
    if "immediate" in said:
        text = said["immediate"] or ""
        fields["max_wait_s"] = int(text) if text.isdigit() and int(text) else _AT_ONCE_S
    for text in [] if quiet else job.warnings:
        warn(program, text)
    with Client() as client:
        submitted = client.submit(**fields)
        job_id = int(submitted["job_id"])
        once_per_user.tell(submitted.get("tmp_note", ""), quiet=quiet, say=lambda text: warn(program, text))
        keys = detach_keys.parse(_KEYS) if pty else None
        ended = to_its_end(client, job_id, keys=keys, quiet=quiet, first_only=True, remarks=False)
    if ended is None:
        return 0
    if ended["status"] != "completed" and not quiet:
        note(f"job {job_id} {outcome.in_words(ended)}")
    return outcome.exit_status(ended)


def shared(said: dict[str, str | None]) -> list[tuple[str, str | None]]:
    """What describes the job, and not the step in it."""
    return [(name, value) for name, value in said.items() if name not in _OF_STEPS and name in BY_NAME]


def _script(options: Sequence[str], words: Sequence[str]) -> str:
    """Of a job of several tasks: `srun` inside of it."""
    kept = [word for word in options if word not in ("-Q", "--quiet")]
    program = "import sys; from tgpu.cli.slurm.main import main; sys.exit(main('srun'))"
    return f"#!/bin/sh\nexec {shlex.join([sys.executable, '-P', '-c', program, *kept, *words])}\n"
