"""The last steps from a fork to the user's program: who it is, where it stands, what it runs."""

import os
import signal
from ctypes import CDLL

_PDEATHSIG = 1
_CHILD_SUBREAPER = 36
_prctl = CDLL(None).prctl
ROOT = 0
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
REASON_MAX = 2048


class Refusal(Exception):  # noqa: N818  it is an answer, in words for the user
    """Why a task cannot be started."""


def adopt_orphans() -> None:
    """From now on, a descendant of this process that loses its parent becomes this process's child."""
    _prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)


class Account:
    """Somebody's entry in the password database."""

    __slots__ = ("gid", "home", "name", "shell", "uid")

    def __init__(self, name: str) -> None:
        import pwd  # noqa: PLC0415  its libraries are loaded only where a name has to be looked up

        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            raise Refusal(f"there is no user {name!r} on this machine") from None
        self.name = name
        self.uid = entry.pw_uid
        self.gid = entry.pw_gid
        self.home = entry.pw_dir
        self.shell = entry.pw_shell or "/bin/sh"

    def assume(self) -> None:
        """This process becomes that user, for good."""
        if os.getuid() != ROOT:
            raise Refusal(f"this agent is not root, so it cannot run a job of user {self.name!r}")
        os.initgroups(self.name, self.gid)
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)


def own_account() -> Account | None:
    """The account of this process itself: looked up once and kept, since it cannot change."""
    import pwd  # noqa: PLC0415  see above

    try:
        return Account(pwd.getpwuid(os.getuid()).pw_name)
    except (KeyError, Refusal):  # as in a container: a number without a name
        return None


def become(
    argv: list[str], env: dict[str, str], cwd: str, user: str, own: Account | None, supervisor: int
) -> None:
    """Turns this process into the task; it returns only by raising a Refusal."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if own is not None and own.name == user:
        account = own
    else:
        account = Account(user)
        if account.uid != os.getuid():
            account.assume()
    _prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # after the change of user, which would clear it
    if os.getppid() != supervisor:
        raise Refusal("its supervisor is gone")
    os.umask(0o022)
    _enter(cwd)
    env.setdefault("HOME", account.home)
    env.setdefault("USER", user)
    env.setdefault("LOGNAME", user)
    env.setdefault("SHELL", account.shell)
    _execute(argv, env)


def _enter(cwd: str) -> None:
    if not cwd.startswith("/"):
        raise Refusal(f"cannot enter {cwd!r}: it is not an absolute path")
    try:
        os.chdir(cwd)
    except (OSError, ValueError) as error:
        raise Refusal(f"cannot enter {cwd}: {_why(error)}") from None


def _execute(argv: list[str], env: dict[str, str]) -> None:
    """Looks the program up as a shell does (`os.execvpe` would import `warnings` for every task)."""
    if not argv or not argv[0]:
        raise Refusal("there is no command")
    program = argv[0]
    if "/" in program:
        folders = [""]
    else:
        folders = [f"{folder or '.'}/" for folder in env.get("PATH", DEFAULT_PATH).split(":")]
    reason = "command not found" if "/" not in program else "no such file"
    for folder in folders:
        path = folder + program
        try:
            os.execve(path, argv, env)
        except (FileNotFoundError, NotADirectoryError):
            if os.path.exists(path):
                reason = "its interpreter (the first line, #!) does not exist"
        except (OSError, ValueError) as error:
            reason = _why(error)
    raise Refusal(f"{program}: {reason}")


def _why(error: OSError | ValueError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
