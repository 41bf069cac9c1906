"""The `tgpu` command: finds the one module that is asked for, and turns what goes wrong into one line."""

from __future__ import annotations

import sys
from importlib import import_module

from tgpu.cli import exits, standard_streams
from tgpu.cli.catalogue import COMMANDS, ELSEWHERE, SELECTORS, module_of
from tgpu.client.errors import TgpuError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Sequence

_ALIKE = 0.7  # below, a guess is worse than none: `bogus` would be `logs`


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code."""
    standard_streams.replace_closed()
    try:
        code = _dispatch(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except exits.CommandError as error:
        code = _say(str(error), error.code)
    except TgpuError as error:
        code = _say(exits.words_of(error), exits.code_of(error))
    except KeyboardInterrupt:
        code = exits.INTERRUPTED
    except BrokenPipeError:  # whoever read the output has gone, and knows it
        standard_streams.silence_stdout()
        code = exits.BROKEN_PIPE
    except OSError as error:
        standard_streams.silence_stdout()
        what = error.filename or "cannot write the output"  # a write knows no name
        code = _say(f"{what}: {error.strerror or error}", exits.FAILED)
    return code


def _dispatch(argv: list[str]) -> int:
    name = argv[0] if argv else "--help"
    if name in {"-h", "--help", "help"}:
        print(overview(), end="")
        return exits.OK
    if name == "--version":
        from tgpu import __version__  # noqa: PLC0415

        print(f"tgpu {__version__}")
        return exits.OK
    for typed in (name, " ".join(argv[:2])):
        if typed in ELSEWHERE:
            raise exits.UsageError(f"there is no `tgpu {typed}`; did you mean `tgpu {ELSEWHERE[typed]}`?")
    if name not in COMMANDS:
        raise exits.UsageError(_unknown(name))
    command = import_module(module_of(name))
    try:
        code: int = command.main(argv[1:])
    except SystemExit as left:
        if left.code:
            raise
        code = exits.OK  # argparse has printed its help
    return code


def overview() -> str:
    """What `tgpu --help` prints."""
    lines = [
        "usage: tgpu COMMAND [ARGUMENTS]",
        "",
        "A queue for GPUs and ML work. `tgpu COMMAND --help` says more.",
        "",
    ]
    lines += [f"  {name:<11} {doc}" for name, doc in COMMANDS.items()]
    lines += [
        "",
        "first steps:",
        "  tgpu up --detach",
        "  tgpu submit --gpus 1 -- python train.py",
        "  tgpu list",
    ]
    return "\n".join([*lines, "", SELECTORS, exits.MEANINGS])


def _unknown(name: str) -> str:
    if name.startswith("-"):
        return f"there is no option {name} before the command (see `tgpu --help`)"
    from difflib import get_close_matches  # noqa: PLC0415  only a slip needs it

    near = get_close_matches(name, COMMANDS, n=1, cutoff=_ALIKE)
    return f"there is no command {name!r}" + (
        f"; did you mean {near[0]!r}?" if near else " (see `tgpu --help`)"
    )


def _say(text: str, code: int) -> int:
    print(f"tgpu: {' '.join(text.split())}", file=sys.stderr)
    return code
