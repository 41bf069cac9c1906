"""The command of a batch job: the script travels in it, as it was when it was submitted."""

from __future__ import annotations

from tgpu.dialects.slurm.script import interpreter

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Sequence

_SCRIPT = "/dev/fd/9"
"""Read from its beginning as often as somebody likes, `sbatch $0` included, and gone with the job."""
_UNPACK = (
    'f=$(mktemp "${TMPDIR:-/tmp}/slurm_script.XXXXXX" 2>/dev/null || mktemp /tmp/slurm_script.XXXXXX) '
    "|| exit 1; export SLURM_TASK_PID=$$ SLURM_JOB_UID=$(id -u) SLURM_JOB_GID=$(id -g); "
    'printf %s "$1" >"$f" || exit 1; exec 9<"$f"; rm -f "$f"; '
    'if [ -n "$2" ]; then exec <"$2" || exit 1; fi; '
)
# A login shell sets PATH anew by /etc/profile, and reads this afterwards: the folder of Slurm's commands is
# put back, and whatever BASH_ENV meant otherwise is done.
_PUT_BACK = (
    'case ":$PATH:" in *":$TGPU_LAUNCHERS:"*) ;; *) PATH=$TGPU_LAUNCHERS:$PATH ;; esac; exec 8<&-; '
    "BASH_ENV=$TGPU_BASH_ENV; unset TGPU_LAUNCHERS TGPU_BASH_ENV; "
    'if [ -n "$BASH_ENV" ]; then . "$BASH_ENV"; else unset BASH_ENV; fi'
)
_LOGIN = (
    'if s=$(command -v srun) && f=$(mktemp "${TMPDIR:-/tmp}/slurm_login.XXXXXX"); then '
    f'printf %s \'{_PUT_BACK}\' >"$f"; exec 8<"$f"; rm -f "$f"; '
    'export TGPU_LAUNCHERS="${s%/*}" TGPU_BASH_ENV="$BASH_ENV" BASH_ENV=/dev/fd/8; fi; '
)
_RUN = 'shift 3; exec "$@"'
# Of a job on several nodes: the script runs on the first; the others carry out the steps that it asks for.
_ON_SEVERAL = (
    'if [ "${NODE_RANK:-0}" != 0 ]; then '
    'exec "$3" -P -c "from tgpu.cli.slurm import keeper; keeper.main()"; fi; '
)
_DESK = '"$3" -P -c "from tgpu.cli.slurm import desk; desk.main()" 9<&- & '
_NOT_SLURM_S = "unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK NNODES MASTER_ADDR MASTER_PORT; "


def command(
    text: str, arguments: Sequence[str], *, stdin: str = "", nodes: int = 1, python: str = ""
) -> list[str]:
    """`python`: where tgpu is found on every node, for jobs of several."""
    run = _LOGIN + _RUN if _is_login_shell(interpreter(text)) else _RUN
    steps = _UNPACK + run
    if nodes > 1:
        steps = _ON_SEVERAL + _UNPACK + _DESK + _NOT_SLURM_S + run
    return [
        "/bin/sh",
        "-c",
        steps,
        "slurm_script",
        text,
        stdin,
        python,
        *interpreter(text),
        _SCRIPT,
        *arguments,
    ]


def _is_login_shell(words: Sequence[str]) -> bool:
    """Of those that can be told what to do after /etc/profile."""
    option = words[1] if len(words) > 1 else ""
    short = option.startswith("-") and not option.startswith("--") and "l" in option.split()[0]
    return words[0].rpartition("/")[2] == "bash" and (short or option == "--login")


def script_of(command: Sequence[str] | str | None) -> str | None:
    """The script in such a command."""
    if not isinstance(command, list | tuple) or len(command) < 5 or command[3] != "slurm_script":  # noqa: PLR2004
        return None
    return str(command[4])


def arguments_of(command: Sequence[str]) -> list[str]:
    """The script's own, in such a command."""
    return list(command[command.index(_SCRIPT) + 1 :]) if _SCRIPT in command else []


def users_words(command: Sequence[str]) -> Sequence[str]:
    """What its user has written of a job's command: of a batch job, its script and the script's arguments."""
    script = script_of(command)
    return command if script is None else [script, *arguments_of(command)]
