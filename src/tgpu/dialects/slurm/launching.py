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
    steps = _UNPACK + _RUN
    if nodes > 1:
        steps = _ON_SEVERAL + _UNPACK + _DESK + _NOT_SLURM_S + _RUN
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


def script_of(command: Sequence[str] | str | None) -> str | None:
    """The script in such a command."""
    if not isinstance(command, list | tuple) or len(command) < 5 or command[3] != "slurm_script":  # noqa: PLR2004
        return None
    return str(command[4])
