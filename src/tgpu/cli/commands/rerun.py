"""`tgpu rerun`: jobs once more, exactly as they were."""

from __future__ import annotations

from tgpu.cli import words
from tgpu.cli.after_flags import add_after, after_of
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_jobs, add_output, command_parser
from tgpu.cli.change_flags import add_change_flags, changes_of, flags_of_fields
from tgpu.cli.exits import OK
from tgpu.cli.refusals import in_flags
from tgpu.cli.screen import note
from tgpu.cli.selectors import resolve
from tgpu.client import Client

_EXAMPLES = """\
examples:
  tgpu rerun 42
  tgpu rerun 42 --time 8h --gpus 2
  tgpu rerun 42 --after 57
Each becomes a new job: with the same command, environment, snapshot and image, but for what the flags change.
It waits for other jobs only if --after says so.
A job without a snapshot runs what is in its directory then.
"""


def parser() -> Parser:
    made = command_parser("rerun", "Run jobs once more, exactly as they were.", _EXAMPLES)
    add_jobs(made)
    add_change_flags(made)
    add_after(made, instead=False)
    add_output(made, quiet="print only the new jobs' ids")
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    changes = changes_of(args)
    with Client() as client, in_flags({**flags_of_fields(args), "after": "--after"}):
        after = after_of(args, client)
        changes |= {} if after is None else {"after": after}
        made = [(job_id, client.rerun(job_id, **changes)) for job_id in resolve(client, args.jobs)]
    bare = [old for old, job in made if not job.get("snapshot") and not job.get("image")]
    if bare:
        note(f"{words.ranges(bare)} had no snapshot: what is in the directory now is what runs")
    ids = [job["job_id"] for _, job in made]

    def people(_: object) -> list[str]:
        return [f"Submitted job {job['job_id']}, as {old} was" for old, job in made]

    show(Answer(made[0][1] if len(made) == 1 else [job for _, job in made], people, ids), args)
    return OK
