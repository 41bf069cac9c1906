# ruff: noqa: PTH110, PTH116  pathlib is too heavy for a supervisor
"""From an order to a running program: who it is, where it stands, what it runs.

A task of the agent's own user is started with `posix_spawn`, which copies nothing. Another user's is
forked, because only a process of its own can become that user before it looks at the user's files. So is one
that lives at most once, because only a process of its own can ask to die with its supervisor.
"""

import os
from ctypes import CDLL

from tgpu.runner import keyring
from tgpu.runner.light import signal

TYPE_CHECKING = False  # `typing` is too heavy for a supervisor
if TYPE_CHECKING:
    from tgpu.runner.private_tmp import PrivateTmp
    from tgpu.runner.user_files import UserFiles

_PDEATHSIG = 1
_CHILD_SUBREAPER = 36
_prctl = CDLL(None).prctl
ROOT = 0
_SECRET_MAX = 64 * 1024
NOT_FOUND = ("no such file", "command not found")
"""How a refusal ends if there is no such program."""
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
IGNORED = (
    signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM,
)  # fmt: skip
"""What the interpreter ignores, or who started the agent (`nohup`, `&`), and a program must not."""


class Refusal(Exception):  # noqa: N818  it is an answer, in words for the user
    """Why a task cannot be started."""


def adopt_orphans() -> None:
    """From now on, a descendant of this process that loses its parent becomes this process's child."""
    _prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)


class Account:
    """A user of this machine, with all that the databases of users and groups say of it.

    It is looked up where this process trusts the files that the lookup reads, and never in the mounts of a
    task: a lookup may load libraries that those name.
    """

    __slots__ = ("gid", "groups", "home", "name", "shell", "uid")

    def __init__(self, name: str) -> None:
        import pwd  # noqa: PLC0415  its libraries are loaded only where a name has to be looked up

        try:
            entry = pwd.getpwnam(name)
        except (KeyError, ValueError):
            raise Refusal(f"there is no user {name!r} on this machine") from None
        self.name = name
        self.uid = entry.pw_uid
        self.gid = entry.pw_gid
        self.groups = os.getgrouplist(name, entry.pw_gid)
        self.home = entry.pw_dir
        self.shell = entry.pw_shell or "/bin/sh"

    def assume(self, view: "PrivateTmp | None" = None) -> None:
        """Becomes that user permanently, in a session keyring of its own. `view`: and in these mounts.
        Between entering them and becoming the user, no file is opened and no module loaded."""
        if os.getuid() != ROOT:
            raise Refusal(f"this agent is not root, so it cannot run a job of user {self.name!r}")
        keyring.renew()
        if view is not None:
            view.enter()
        os.setgroups(self.groups)
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)

    def complete(self, env: dict[str, str]) -> None:
        env.setdefault("HOME", self.home)
        env.setdefault("USER", self.name)
        env.setdefault("LOGNAME", self.name)
        env.setdefault("SHELL", self.shell)


def own_account() -> Account | None:
    """The account of this process itself: looked up once and kept, since it cannot change."""
    import pwd  # noqa: PLC0415  see above

    try:
        return Account(pwd.getpwuid(os.getuid()).pw_name)
    except (KeyError, Refusal):  # as in a container: a number without a name
        return None


def spawn(argv: list[str], env: dict[str, str], cwd: str, out_end: int, err_end: int) -> int:
    """Starts the program as this process's own user, and leaves this process standing in `cwd`."""
    enter(cwd)
    reason = ""
    for path in candidates(argv, env):
        if not os.access(path, os.X_OK):
            reason = "permission denied" if os.path.exists(path) else reason
            continue
        try:
            return os.posix_spawn(
                path,
                argv,
                env,
                file_actions=((os.POSIX_SPAWN_DUP2, out_end, 1), (os.POSIX_SPAWN_DUP2, err_end, 2)),
                setsid=True,
                setsigmask=(),
                setsigdef=IGNORED,
            )
        except (OSError, ValueError) as error:
            reason = why(error, path)
    raise Refusal(f"{argv[0]}: {reason or not_found(argv)}")


def become(  # noqa: PLR0917  as an order has it
    argv: list[str],
    env: dict[str, str],
    cwd: str,
    account: Account,
    supervisor: int,
    secret_env: dict[str, str],
    files: "UserFiles | None" = None,
    *,
    terminal: bool = False,
    most_pids: int = 0,
    view: "PrivateTmp | None" = None,
) -> None:
    """Turns this freshly forked process into the other user's program; returns only by a Refusal. `files`: to
    be opened as that user. `terminal`: its stdin is one, and is to be its own. `view`: the mounts that the
    program is to see. `most_pids`: of all that this user has here; 0: no limit."""
    os.setsid()
    if terminal:
        _own_terminal(account)
    for number in IGNORED:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if account.uid != os.getuid():
        _limit_processes(most_pids)
        account.assume(view)
    else:
        keyring.renew()
        if view is not None:
            view.enter()
    _prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # after the change of user, which would clear it
    if os.getppid() != supervisor:
        raise Refusal("its supervisor is gone")
    reveal(env, secret_env)
    enter(cwd)
    if files is not None:
        files.open()
    reason = ""
    for path in candidates(argv, env):
        try:
            os.execve(path, argv, env)  # noqa: S606  a shell would be the job's own business
        except BlockingIOError:
            raise Refusal(
                f"{account.name} has {most_pids} processes and threads on this node already, the most that "
                "one user may have (user_pids)"
            ) from None
        except (OSError, ValueError) as error:
            reason = why(error, path) or reason
    raise Refusal(f"{argv[0]}: {reason or not_found(argv)}")


def _limit_processes(most: int) -> None:
    if not most:
        return
    import resource  # noqa: PLC0415  the spawner has loaded it

    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def _own_terminal(account: Account) -> None:
    import fcntl  # noqa: PLC0415  only who has a terminal needs it
    import termios  # noqa: PLC0415

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if account.uid != os.getuid():
        os.fchown(0, account.uid, -1)  # programs open it by its name, too


def reveal(env: dict[str, str], secret_env: dict[str, str]) -> None:
    """Reads what the task's variables are to have; by now this process is the task's user."""
    for variable, reference in secret_env.items():
        kind, _, name = reference.partition(":")
        if kind != "file":
            raise Refusal(f"there is no secret {name!r} any more; set it again: tgpu secret set {name}")
        env[variable] = os.fsdecode(_secret(variable, name))


def _secret(variable: str, path: str) -> bytes:
    """Without the line end at its end."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise Refusal(f"cannot read {path} for {variable}: {reason}") from None
    try:
        _check_is_kept(file, variable, path)
        data = os.read(file, _SECRET_MAX + 1)
    except OSError as error:
        raise Refusal(f"cannot read {path} for {variable}: {error.strerror}") from None
    finally:
        os.close(file)
    if len(data) > _SECRET_MAX or b"\0" in data:
        raise Refusal(f"{path} for {variable} is no secret: at most 64 KiB without NUL")
    return data.removesuffix(b"\n")


def _check_is_kept(file: int, variable: str, path: str) -> None:
    """What the kernel makes up for each reader would tell of this process, which is not the task yet."""
    device = os.fstat(file).st_dev
    for place in ("/proc", "/sys"):
        if os.path.exists(place) and os.stat(place).st_dev == device:
            raise Refusal(f"{path} for {variable} is in {place}, where no secrets are kept")


def enter(cwd: str) -> None:
    if not cwd.startswith("/"):
        raise Refusal(f"cannot enter {cwd!r}: it is not an absolute path")
    try:
        os.chdir(cwd)
    except (OSError, ValueError) as error:
        raise Refusal(f"cannot enter {cwd}: {why(error, '/')}") from None


def candidates(argv: list[str], env: dict[str, str]) -> list[str]:
    """Where a shell would look for the program (`os.execvpe` would import `warnings` for every task)."""
    if not argv or not argv[0]:
        raise Refusal("there is no command")
    if "/" in argv[0]:
        return [argv[0]]
    return [f"{folder or '.'}/{argv[0]}" for folder in env.get("PATH", DEFAULT_PATH).split(":")]


def not_found(argv: list[str]) -> str:
    return NOT_FOUND[0] if "/" in argv[0] else NOT_FOUND[1]


def why(error: OSError | ValueError, path: str) -> str:
    """In words; empty if there is simply nothing at that path."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        if path == "/":
            return str(error.strerror)
        exists = "\0" not in path and os.path.exists(path)
        return "its interpreter (the first line, #!) does not exist" if exists else ""
    return (isinstance(error, OSError) and error.strerror) or str(error)
