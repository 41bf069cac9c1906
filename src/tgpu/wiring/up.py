"""`tgpu up`: server and agent for this machine in one command; `tgpu down`: neither."""

import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tgpu.client import Client, TgpuError
from tgpu.config import settings as configuration
from tgpu.config.dashboard_folder import is_built
from tgpu.config.described import BY_FLAG
from tgpu.config.secret_file import check_settings_file, store_url
from tgpu.config.settings import Settings, SettingsError
from tgpu.config.url_password import is_masked
from tgpu.observe.log_output import guard_standard_streams
from tgpu.wiring import for_all_users, home, home_in_tmp, last_flags, pidfile, processes, service_unit
from tgpu.wiring.addresses import check_advertise, check_listen
from tgpu.wiring.membership import identity_path
from tgpu.wiring.service_unit import Service

RESTART_S = 1.0
NOT_PERMITTED = 5


def run(overrides: Mapping[str, Any], *, detach: bool, install_service: bool, reload: bool) -> int:
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        settings = configuration.load(os.environ, given)
        if install_service:
            return install_service_of(Service.UP, settings, given)
        home.prepare(settings)
        _refuse_a_node_of_a_cluster(settings)
        alive = _refuse_a_second(settings)
        _warn_of_the_machines_own(settings)
        _warn_if_closed_to_others(settings)
        _refuse_an_exposed_password(settings)
        given = _with_last_flags(settings, given)
        settings = configuration.load(os.environ, given)
        check_listen(settings.listen, encrypted=settings.encrypted)
        check_advertise(settings)
        environ = {**os.environ, **last_flags.as_environ(given), BY_FLAG: ",".join(given)}
        with last_flags.kept_if_it_starts(settings, given):
            if detach:
                return _detached(settings, environ, alive)
            return _attached(settings, environ, alive, reload=reload)
    except (SettingsError, home.HomeError, processes.StartError, pidfile.AlreadyRunningError) as error:
        return _fail(str(error))
    except OSError as error:
        if error.filename is None:
            raise
        return _fail(f"cannot write {error.filename}: {error.strerror}")


def install_service_of(service: Service, settings: Settings, given: Mapping[str, Any]) -> int:
    lines = service_unit.install(service, settings.home, flags=last_flags.as_environ(given))
    print("\n".join(lines))
    return 0


def _with_last_flags(settings: Settings, given: dict[str, Any]) -> dict[str, Any]:
    """The same machine comes back: simulated GPUs do not vanish because a part was killed, nor while they are
    in use."""
    last = {name: value for name, value in last_flags.recall(settings).items() if name not in given}
    last = _with_its_password(settings, last)
    if last:
        running = last_flags.running_on(settings)
        why = f"{_tasks(running)} on" if running else "It was killed last time"
        print(f"{why}: taking up {last_flags.in_words(last)} again.")
    return {**last, **given}


def _with_its_password(settings: Settings, last: dict[str, Any]) -> dict[str, Any]:
    """A password is not stored with the flags: it has to come from elsewhere, or the server would start on
    another store."""
    store = str(last.get("store", ""))
    if not is_masked(store):
        return last
    if not settings.store:
        raise SettingsError(
            f"the last start had --store {store}, and its password is not kept: put the URL into a file "
            "(chmod 600) and start with --store @FILE, or set TGPU_STORE"
        )
    return {name: value for name, value in last.items() if name != "store"}


def _warn_of_the_machines_own(settings: Settings) -> None:
    """Two schedulers that do not know of each other would give out the same GPUs."""
    if home.public_socket(settings) is not None or settings.simulate_gpus:
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(configuration.SYSTEM_SOCKET))
        except OSError:
            return
    print(
        f"tgpu: beware: this machine has a tgpu of its own, at {configuration.SYSTEM_SOCKET}; both would "
        "give out the same GPUs. To use that one: `tgpu down`, leave TGPU_HOME unset, `tgpu submit`.",
        file=sys.stderr,
    )


def _warn_if_closed_to_others(settings: Settings) -> None:
    """They would find a socket, and no command to use it with."""
    closed = for_all_users.closed_to_others() if home.public_socket(settings) is not None else None
    if closed is not None:
        print(
            f"tgpu: beware: other users cannot run this tgpu, because {closed} is closed to them: "
            f"{for_all_users.REMEDY}",
            file=sys.stderr,
        )


def _refuse_an_exposed_password(settings: Settings) -> None:
    """Also in a file that `store` names."""
    check_settings_file(os.environ, settings.home)
    store_url(settings)


def down(settings: Settings) -> int:
    above = pidfile.holder(settings.run_dir / "up.pid")
    parts = processes.running(settings)
    if above is None and not parts:
        return _fail(f"nothing runs in {settings.home}")
    try:
        if above is not None:
            processes.send_signal(above, signal.SIGTERM)
        if not processes.stop(parts, settings):
            return _fail(f"still running after a while: {processes.running(settings)}; try again")
    except processes.StopError as error:
        return _fail(str(error), NOT_PERMITTED)
    print(_parting("Stopped.", last_flags.forget_if_idle(settings), last_flags.recall(settings)))
    return 0


def _parting(stopped: str, running: int, flags: Mapping[str, Any]) -> str:
    if not running:
        return f"{stopped} Nothing runs on."
    again = f", as the node it is now ({last_flags.in_words(flags)})" if flags else ""
    return f"{stopped} {_tasks(running)} on; `tgpu up` finds them again{again}."


def _tasks(running: int) -> str:
    return "1 task runs" if running == 1 else f"{running} tasks run"


def _fail(why: str, code: int = 1) -> int:
    print(f"tgpu: {why}", file=sys.stderr)
    return code


def _refuse_a_node_of_a_cluster(settings: Settings) -> None:
    """Its agent would go to that cluster, and never to a server here."""
    path = identity_path(settings)
    if path.exists():
        raise SettingsError(
            f"this machine is a node of a cluster ({path}): `tgpu agent` starts it; for a tgpu of its own, "
            "set TGPU_HOME to another directory"
        )


def _refuse_a_second(settings: Settings) -> dict[str, int]:
    """Returns what lives here already, if that is not all of it."""
    above = pidfile.holder(settings.run_dir / "up.pid")
    if above is not None:
        raise pidfile.AlreadyRunningError("tgpu up", above)
    alive = processes.running(settings)
    if len(alive) == len(processes.PARTS):
        raise pidfile.AlreadyRunningError("server", alive["server"])
    return alive


def _start(
    settings: Settings, environ: Mapping[str, str], missing: list[str], *, with_parent: bool
) -> dict[str, "subprocess.Popen[bytes]"]:
    marks = {part: processes.log_mark(settings, part) for part in missing}
    children = {part: processes.start(part, settings, environ, with_parent=with_parent) for part in missing}
    try:
        processes.wait_ready(settings, children, marks)
    except BaseException:
        for child in children.values():
            child.terminate()
        raise
    return children


def _detached(settings: Settings, environ: Mapping[str, str], alive: Mapping[str, int]) -> int:
    _start(settings, environ, [part for part in processes.PARTS if part not in alive], with_parent=False)
    _introduce(settings, stop="tgpu down")
    return 0


def _attached(
    settings: Settings, environ: Mapping[str, str], alive: Mapping[str, int], *, reload: bool
) -> int:
    """Stays in the foreground; Ctrl-C stops server and agent and leaves running jobs running. Output that
    cannot be written stops neither."""
    guard_standard_streams()
    if alive:
        processes.stop(alive, settings)
    lock = pidfile.claim(settings.run_dir / "up.pid", "tgpu up")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _as_interrupt)
    children: dict[str, subprocess.Popen[bytes]] = {}
    try:
        children = _start(settings, environ, list(processes.PARTS), with_parent=True)
        _introduce(settings, stop="Ctrl-C")
        _watch(settings, environ, children, sources=_sources() if reload else None)
    except KeyboardInterrupt:
        print("\nStopping. Running jobs run on; `tgpu up` finds them again.")
    finally:
        pids = {part: child.pid for part, child in children.items() if child.poll() is None}
        processes.stop(pids, settings)
        last_flags.forget_if_idle(settings)
        pidfile.release(lock)
    return 0


def _as_interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _watch(
    settings: Settings,
    environ: Mapping[str, str],
    children: dict[str, "subprocess.Popen[bytes]"],
    sources: "dict[Path, float] | None",
) -> None:
    """A part that dies is started again; with `sources`, so is everything when the code changes."""
    while True:
        time.sleep(0.2)
        if sources is not None and (now := _sources()) != sources:
            sources = now
            print("The code changed: restarting.")
            for child in children.values():
                child.terminate()
            for child in children.values():
                child.wait()
        for part, child in list(children.items()):
            if child.poll() is not None:
                if child.returncode != 0:
                    words = processes.last_words(settings, part)
                    print(
                        f"The {part} ended ({child.returncode}): {words}. Starting it again.", file=sys.stderr
                    )
                    time.sleep(RESTART_S)
                with contextlib.suppress(OSError):  # a full disk: the next round tries again
                    children[part] = processes.start(part, settings, environ, with_parent=True)


def _sources() -> dict[Path, float]:
    """Every source file and when it last changed."""
    package = Path(__file__).parent.parent
    changed: dict[Path, float] = {}
    for path in package.rglob("*.py"):
        with contextlib.suppress(FileNotFoundError):  # an editor or git is replacing it this moment
            changed[path] = path.stat().st_mtime
    return changed


def _dashboard(settings: Settings) -> str:
    """The dashboard's address, with a one-time code for the user that starts tgpu."""
    missing = "" if is_built() else "not built yet: make web; "
    try:
        with Client(f"unix://{settings.socket}") as client:
            url = str(client.create_sign_in_link()["url"])
    except TgpuError as error:
        return str(error)
    if _is_logged():
        return f"{url.partition('signin#')[0]}   ({missing}sign in: tgpu web)"
    return f"{url}   ({missing}valid once, for 5 minutes; later: tgpu web)"


def _is_logged() -> bool:
    """Whether the output goes to a file or a journal, which others may read, and not to a terminal or a
    program that asked for it."""
    try:
        return not (os.isatty(1) or stat.S_ISFIFO(os.fstat(1).st_mode))
    except OSError:
        return True


def _introduce(settings: Settings, stop: str) -> None:
    if (hidden := home_in_tmp.beware(settings)) is not None:
        print(hidden, file=sys.stderr)
    address = home.last_url(settings)
    public = home.public_socket(settings)
    if home.serves_everybody():
        who = "all users of this machine; each job runs as whoever submitted it"
    else:
        who = "only you: started as root it would serve all users of this machine"
    print("tgpu is up.")
    print(f"  serves   {who}")
    print(f"  socket   {settings.socket}" + (f" and {public}" if public else ""))
    print(f"  API      {address or 'off'}   (needs a token: tgpu token create)")
    if address:
        print(f"  web      {_dashboard(settings)}")
    print(f"  home     {settings.home}")
    print(f"  stop     {stop} (running jobs run on)")
    print()
    print("Try next:")
    if settings.home != configuration.default_home({k: v for k, v in os.environ.items() if k != "TGPU_HOME"}):
        print(f"  export TGPU_HOME={settings.home}")
    print("  tgpu run --gpus 1 -- env        # run something now and watch it: see CUDA_VISIBLE_DEVICES")
    print("  tgpu submit --gpus 1 -- python train.py")
    print("  tgpu list                       # who uses what")
    print("  tgpu why last                   # why it waits", flush=True)
