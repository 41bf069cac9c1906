"""What `tgpu doctor` looks at: each check finds one thing, and says what to do about it."""

from __future__ import annotations

import os
import shutil
import sys
import time
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tgpu.cli import cluster_checks, words
from tgpu.cli.findings import FAIL, OK, WARN, Finding
from tgpu.client import Client, TgpuError, UnreachableError, locate
from tgpu.config import settings as config
from tgpu.wiring import addresses

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOW_DISK_MIB = 1024
_MOST_SKEW_S = 5
_SQLITE = b"SQLite format 3\0"


def findings() -> Iterator[Finding]:
    yield _python()
    yield _settings()
    home = Path(locate.home(os.environ))
    yield _home(home)
    yield _disk(home)
    yield from _server()
    yield from cluster_checks.of_node()
    yield _gpus()
    yield _cgroups()
    yield _limits()


def _python() -> Finding:
    return Finding("python", OK, f"{sys.version.split()[0]} at {sys.executable}")


def _settings() -> Finding:
    try:
        settings = config.load(os.environ)
        addresses.check_listen(settings.listen, encrypted=settings.encrypted)
        addresses.check_advertise(settings)
    except config.SettingsError as error:
        return Finding("settings", FAIL, str(error), "correct it; `tgpu doctor --settings` lists them all")
    return Finding("settings", OK, "readable and consistent")


def _home(home: Path) -> Finding:
    if not home.exists():
        return Finding("home", OK, f"{home} is not there yet; `tgpu up` makes it")
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        return Finding(
            "home", WARN, f"{home} is not yours to write", "set TGPU_HOME, or use its owner's server"
        )
    if home.stat().st_mode & 0o022:
        return Finding("home", WARN, f"{home} can be changed by others", f"chmod go-w {home}")
    return Finding("home", OK, f"{home}")


def _disk(home: Path) -> Finding:
    there = next(path for path in (home, *home.parents) if path.exists())
    free = shutil.disk_usage(there).free >> 20
    if free < _LOW_DISK_MIB:
        return Finding("disk", WARN, f"{words.size(free)} free below {there}", "make room, or move TGPU_HOME")
    return Finding("disk", OK, f"{words.size(free)} free below {there}")


def _server() -> Iterator[Finding]:
    with Client(timeout=5) as client:
        try:
            begun = time.monotonic()
            me = client.whoami()
            took_ms = (time.monotonic() - begun) * 1000
            address = client.session.address
            yield Finding(
                "server", OK, f"{address} answers in {took_ms:.0f} ms; you are {me.get('user_id', '?')}"
            )
            yield _clock(client)
            yield _nodes(client)
            yield from _alerts(client)
            yield from cluster_checks.of_cluster(client)
        except TgpuError as error:
            yield Finding("server", FAIL, str(error), _advice(client.session.address))
            if isinstance(error, UnreachableError) and client.session.address.scheme == "unix":
                yield from _facts(Path(locate.home(os.environ)) / "tgpu.db")


def _alerts(client: Client) -> Iterator[Finding]:
    """What the server itself finds wrong; each says what to do."""
    for alert in client.stats().get("alerts", []):
        yield Finding("alert", WARN, f"{alert['name']}: {alert['text']}")


def _advice(address: locate.Address) -> str:
    if address.scheme != "unix":
        return "check TGPU_SERVER and TGPU_TOKEN"
    path = Path(address.path)
    if path.exists() and not os.access(path, os.W_OK):
        return f"you may not use {path}; ask its owner ({path.owner()})"
    if path.exists():
        return "its socket is left over from a server that died; `tgpu up` replaces it"
    return "start one with `tgpu up`, or say where one is with TGPU_SERVER"


def _facts(file: Path) -> Iterator[Finding]:
    """Where a server here would find its facts."""
    try:
        store = config.load(os.environ).store
    except config.SettingsError:
        return  # said before
    if store.startswith(("postgresql:", "postgres:")):
        yield cluster_checks.of_store(store)
    else:
        yield from _database(file)


def _database(path: Path) -> Iterator[Finding]:
    """Looks without touching: SQLite itself would already change files beside it. An empty one is new."""
    try:
        with path.open("rb") as file:
            head = file.read(len(_SQLITE))
    except OSError:
        return  # there is none yet, or it is another's
    if head not in {b"", _SQLITE}:
        advice = "restore it from a copy, or move it away, with its -wal and -shm, to begin with an empty one"
        yield Finding("database", FAIL, f"{path} is not a SQLite database", advice)
    else:
        yield Finding("database", OK, f"{path} looks like one")


def _clock(client: Client) -> Finding:
    connection, response = client.session.stream("/healthz", {})
    connection.close()
    said = response.headers.get("date")
    if said is None:
        return Finding("clock", OK, "the server does not tell its time")
    skew = time.time() - parsedate_to_datetime(said).timestamp()
    if abs(skew) > _MOST_SKEW_S:
        return Finding(
            "clock", WARN, f"{skew:+.0f} s from the server's", "synchronise clocks, e.g. with chrony"
        )
    return Finding("clock", OK, "agrees with the server's")


def _nodes(client: Client) -> Finding:
    nodes = client.nodes()
    ready = [node for node in nodes if node["status"] == "ready"]
    sick = [
        f"GPU {device['index']} of {node['node_id']}"
        for node in nodes
        for device in node.get("devices") or []
        if not device.get("healthy", True)
    ]
    if not ready:
        return Finding(
            "nodes", FAIL, f"none of {len(nodes)} is ready", "start `tgpu up` or `tgpu agent` there"
        )
    away = [str(node["node_id"]) for node in ready if node.get("silent_s") is not None]
    if away:
        verb = "is" if len(away) == 1 else "are"
        text = f"{', '.join(away)} {verb} not connected"
        return Finding("nodes", WARN, text, "start its agent with `tgpu up`")
    if sick:
        return Finding(
            "nodes", WARN, f"not given out: {', '.join(sick)}", "see the NOTE column of `tgpu nodes`"
        )
    gpus = sum(node.get("gpu_total") or 0 for node in ready)
    return Finding("nodes", OK, f"{len(ready)} of {len(nodes)} ready, with {words.number(gpus)} GPUs")


def _gpus() -> Finding:
    import pynvml  # noqa: PLC0415  slow to load, and only this check needs it

    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        return Finding(
            "gpus",
            WARN,
            f"no NVIDIA driver here ({error})",
            "install it, or try things out with --simulate-gpus 8",
        )
    return Finding("gpus", OK, f"{words.plural(count, 'GPU')} seen through NVML")


def _cgroups() -> Finding:
    root = Path("/sys/fs/cgroup")
    if (root / "cgroup.controllers").exists():
        version, folder = 2, root
    else:
        version, folder = 1, root / "pids"
    if os.access(folder, os.W_OK):
        return Finding("cgroups", OK, f"version {version}: each longer task is also tracked by a cgroup")
    advice = "tasks are tracked by their process tree alone; start tgpu as root for both"
    return Finding("cgroups", WARN, f"{folder} cannot be written", advice)


def _limits() -> Finding:
    """Said every time, because people assume otherwise."""
    return Finding(
        "limits", OK, "CPU, memory and GPU shares are counted exactly, not enforced on running jobs"
    )
