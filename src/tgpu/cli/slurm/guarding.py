"""Nothing of a step outlives its `srun`, also if that is killed: who is killed cannot end anybody.

So `srun` is two processes. The one that was called passes signals on and waits; its child runs the step,
holds what that has taken, and is the subreaper of all that it starts: whoever loses its parent becomes its
own child.
"""

from __future__ import annotations

import os
import signal
import sys
from ctypes import CDLL
from pathlib import Path

from tgpu.runner import tree
from tgpu.runner.task import adopt_orphans

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
             signal.SIGCONT, signal.SIGALRM)  # fmt: skip
_ORPHANED = signal.SIGRTMIN
_PDEATHSIG = 1
_prctl = CDLL(None).prctl


def go_on_in_a_child() -> None:
    """Returns in the child. The process that was called ends as that does."""
    sys.stdout.flush()
    sys.stderr.flush()
    called = os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [*PASSED_ON, signal.SIGCHLD])
    if child := os.fork():
        os._exit(_end_of(child))
    signal.signal(_ORPHANED, lambda *_: _end_alone())
    _prctl(_PDEATHSIG, _ORPHANED, 0, 0, 0)
    if os.getppid() != called:
        _end_alone()
    adopt_orphans()
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _end_of(child: int) -> int:
    """Its exit code, as a shell has it."""
    while True:
        heard = signal.sigwaitinfo([*PASSED_ON, signal.SIGCHLD])
        if heard.si_signo != signal.SIGCHLD:
            if not is_for_all(heard):
                os.kill(child, heard.si_signo)
            continue
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _end_alone() -> None:
    """The names of what it has taken are free once this process is gone, and so it goes last."""
    end_all()
    os._exit(128 + signal.SIGKILL)


def end_all() -> None:
    """Whatever is left of the step on this node is killed, and gone."""
    while tree.kill(os.getpid()):
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def is_for_all(heard: signal.struct_siginfo) -> bool:
    """Whether the tasks of the step have got it, too: it came from the job's supervisor, and not from
    somebody in the job, who means the step."""
    try:
        environ = Path(f"/proc/{heard.si_pid}/environ").read_bytes() if heard.si_pid else b""
    except FileNotFoundError:
        return False  # a `kill`, which is gone
    except OSError:
        return True  # another user's
    return f"SLURM_JOB_ID={os.environ['SLURM_JOB_ID']}".encode() not in environ.split(b"\0")
