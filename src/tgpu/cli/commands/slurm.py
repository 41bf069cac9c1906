"""`tgpu slurm install`: launchers by Slurm's names, for scripts that call them."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_action, add_actions, add_output, command_parser
from tgpu.cli.exits import OK, UsageError
from tgpu.cli.screen import note
from tgpu.cli.slurm.main import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tgpu.cli.screen import Screen

_MARK = "# Made by `tgpu slurm install`."
_EXAMPLES = """\
examples:
  tgpu slurm install --to ~/slurm-bin
  PATH=~/slurm-bin:$PATH sbatch job.sh
Where jobs call srun or scontrol, the folder must be there on their nodes, too: put it on a file system
that all of them share. `tgpu submit job.sh` honours #SBATCH lines without any of this.
"""


def parser() -> Parser:
    made = command_parser("slurm", "Slurm's commands, for scripts that call them.", _EXAMPLES)
    actions = add_actions(made)
    install = add_action(actions, "install", f"write {', '.join(PROGRAMS)} into a folder", _EXAMPLES)
    install.add_argument("--to", required=True, metavar="DIR", help="the folder; it is made if need be")
    install.add_argument("--force", action="store_true", help="also over files that are something else")
    add_output(install)
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    folder = Path(args.to).expanduser().absolute()
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / program for program in PROGRAMS]
    for path in paths:
        if not args.force and path.exists() and not _is_ours(path):
            raise UsageError(f"{path} is there and is something else: take another folder, or say --force")
    for path in paths:
        path.unlink(missing_ok=True)  # a link would lead elsewhere
        path.write_text(launcher(path.name), encoding="utf-8")
        path.chmod(0o755)

    def people(_screen: Screen) -> Iterator[str]:
        yield f"Wrote {', '.join(PROGRAMS)} to {folder}"
        yield f'use them with: export PATH={shlex.quote(str(folder))}:"$PATH"'

    for hidden in _hidden(folder):
        note(
            f"{hidden} is out of sight for jobs that have a /tmp of their own, as they do where agents are "
            "root (docs/isolation.md): srun and scontrol would be missing in them; take a place elsewhere"
        )
    show(Answer({"folder": str(folder), "programs": list(PROGRAMS)}, people, []), args)
    return OK


def launcher(program: str) -> str:
    """-P: a json.py in the folder where somebody works is not ours."""
    code = f"import sys; from tgpu.cli.slurm.main import main; sys.exit(main('{program}'))"
    return f'#!/bin/sh\n{_MARK}\nexec {shlex.quote(sys.executable)} -P -c "{code}" "$@"\n'


def _hidden(folder: Path) -> list[str]:
    """The launchers, and the tgpu that they start."""
    from tgpu.runner.private_tmp import is_for  # noqa: PLC0415  only who installs

    return [path for path in (str(folder), sys.executable) if not is_for(path)]


def _is_ours(path: Path) -> bool:
    try:
        return _MARK in path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
