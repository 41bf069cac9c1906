"""What the launchers call: finds the one program that is meant, and turns what goes wrong into one line."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from tgpu.cli import exits, standard_streams
from tgpu.client.errors import TgpuError
from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAMS = (
    "sbatch", "squeue", "scancel", "sinfo", "sacct", "srun", "salloc", "scontrol", "sacctmgr", "sshare",
)  # fmt: skip
VERSION = "slurm 22.05.0"
"""The one whose options these are: scripts look whether something is new enough."""


def main(program: str, argv: Sequence[str] | None = None) -> int:
    """The exit code: 1 for everything that goes wrong, as Slurm's have it, or SLURM_EXIT_ERROR."""
    standard_streams.replace_closed()
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code: int = import_module(f"tgpu.cli.slurm.{program}").main(words)
        sys.stdout.flush()
    except (SlurmError, exits.CommandError) as error:
        code = _say(program, str(error))
    except TgpuError as error:
        code = _say(program, exits.words_of(error))
    except KeyboardInterrupt:
        code = exits.INTERRUPTED
    except BrokenPipeError:  # whoever read the output has gone, and knows it
        standard_streams.silence_stdout()
        code = exits.BROKEN_PIPE
    except OSError as error:
        code = _say(program, f"{error.filename or 'cannot write the output'}: {error.strerror or error}")
    return code


def warn(program: str, text: str) -> None:
    print(f"{program}: warning: {text}", file=sys.stderr)


def _say(program: str, text: str) -> int:
    print(f"{program}: error: {' '.join(text.split())}", file=sys.stderr)
    said = os.environ.get("SLURM_EXIT_ERROR", "")
    return int(said) if said.isdigit() and 0 < int(said) < 256 else exits.FAILED  # noqa: PLR2004
