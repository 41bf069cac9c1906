"""`tgpu up`: server and agent for this machine in one command; `tgpu down`: neither."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tgpu.config import settings as configuration
from tgpu.config.settings import Settings, SettingsError
from tgpu.wiring import home, pidfile, processes, service_unit

RESTART_S = 1.0


def run(overrides: Mapping[str, Any], *, detach: bool, install_service: bool, reload: bool) -> int:
    try:
        settings = configuration.load(os.environ, overrides)
        if install_service:
            print("\n".join(service_unit.install(settings.home, home_was_given="TGPU_HOME" in os.environ)))
            return 0
        home.prepare(settings)
        environ = {**os.environ, **_as_environ(overrides)}
        return _detached(settings, environ) if detach else _attached(settings, environ, reload=reload)
    except (SettingsError, home.HomeError, processes.StartError, pidfile.AlreadyRunningError) as error:
        return _fail(str(error))
    except PermissionError as error:
        return _fail(f"cannot write {error.filename}: {error.strerror}")


def down(settings: Settings) -> int:
    above = pidfile.holder(settings.run_dir / "up.pid")
    parts = processes.running(settings)
    if above is None and not parts:
        return _fail(f"nothing runs in {settings.home}")
    if above is not None:
        os.kill(above, signal.SIGTERM)
    if not processes.stop(parts, settings):
        return _fail(f"still running after a while: {processes.running(settings)}; try again")
    print("Stopped. Running jobs run on; `tgpu up` finds them again.")
    return 0


def _fail(why: str) -> int:
    print(f"tgpu: {why}", file=sys.stderr)
    return 1


def _as_environ(overrides: Mapping[str, Any]) -> dict[str, str]:
    return {f"TGPU_{name.upper()}": str(value) for name, value in overrides.items() if value is not None}


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


def _detached(settings: Settings, environ: Mapping[str, str]) -> int:
    alive = _refuse_a_second(settings)
    _start(settings, environ, [part for part in processes.PARTS if part not in alive], with_parent=False)
    _introduce(settings, stop="tgpu down")
    return 0


def _attached(settings: Settings, environ: Mapping[str, str], *, reload: bool) -> int:
    """Stays in the foreground; Ctrl-C stops server and agent and leaves running jobs running."""
    alive = _refuse_a_second(settings)
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
        os.close(lock)
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
                    print(f"The {part} ended ({child.returncode}): starting it again.", file=sys.stderr)
                    time.sleep(RESTART_S)
                children[part] = processes.start(part, settings, environ, with_parent=True)


def _sources() -> dict[Path, float]:
    """Every source file and when it last changed."""
    package = Path(__file__).parent.parent
    return {path: path.stat().st_mtime for path in package.rglob("*.py")}


def _introduce(settings: Settings, stop: str) -> None:
    address = (settings.run_dir / "address").read_text(encoding="utf-8").strip()
    public = home.public_socket(settings)
    if home.serves_everybody():
        who = "all users of this machine; each job runs as whoever submitted it"
    else:
        who = "only you: started as root it would serve all users of this machine"
    print("tgpu is up.")
    print(f"  serves   {who}")
    print(f"  socket   {settings.socket}" + (f" and {public}" if public else ""))
    print(f"  API      {address or 'off'}   (needs a token: tgpu token create)")
    print(f"  home     {settings.home}")
    print(f"  stop     {stop} (running jobs run on)")
    print()
    print("Try next:")
    if settings.home != configuration.default_home({k: v for k, v in os.environ.items() if k != "TGPU_HOME"}):
        print(f"  export TGPU_HOME={settings.home}")
    print("  tgpu run -- nvidia-smi          # run something now and watch it")
    print("  tgpu submit --gpus 1 -- python train.py")
    print("  tgpu list                       # who uses what")
    print("  tgpu why last                   # why it waits", flush=True)
