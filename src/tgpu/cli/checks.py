"""What `tgpu doctor` looks at: each check finds one thing, and says what to do about it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tgpu.cli import cluster_checks, engine_checks, isolation_checks, node_checks, place, store_checks, words
from tgpu.cli.findings import FAIL, OK, WARN, Finding
from tgpu.client import Client, TgpuError, UnreachableError, locate
from tgpu.config import settings as config
from tgpu.config.home_path import SYSTEM_HOME, home_path
from tgpu.config.settings_file import exposed_password
from tgpu.wiring import addresses, for_all_users, home_in_tmp
from tgpu.wiring import home as homes
from tgpu.wiring.for_all_users import REMEDY

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOW_DISK_MIB = 1024
_MOST_SKEW_S = 5
_COMES_BACK_S = 30
"""A new leader hears its nodes one after the other; so does one whose store was put back."""
_MOST_NAMES = 20
_UNAUTHORIZED = 401


def findings() -> Iterator[Finding]:
    home = Path(home_path(os.environ))
    yield _python()
    yield _settings()
    yield _home(home)
    yield _disk(home)
    if _asks_a_server(home):
        yield from _server(home)
    yield from node_checks.of_node()
    if not place.has_agent(home) and (place.has_server(home) or _is_elsewhere()):
        return  # nothing runs on this machine
    if not place.has_joined(home):
        yield _gpus(home)
    yield from isolation_checks.of_isolation()
    yield from engine_checks.of_engine()


def _is_elsewhere() -> bool:
    """Whether the server that is asked from here is another machine's."""
    with Client() as client:
        return client.session.address.scheme != "unix"


def _asks_a_server(home: Path) -> bool:
    """A node's servers are elsewhere, and ask for a token: without one there is nobody to ask."""
    if not place.has_joined(home) or place.has_server(home):
        return True
    return bool(os.environ.get("TGPU_SERVER") or os.environ.get("TGPU_TOKEN") or (home / "token").exists())


def _python() -> Finding:
    text = f"{sys.version.split()[0]} at {sys.executable}"
    try:
        serves_others = homes.public_socket(config.load(os.environ)) is not None
    except config.SettingsError:
        serves_others = False  # the next check tells
    closed = for_all_users.closed_to_others() if serves_others else None
    if closed is not None:
        return Finding(
            "python", WARN, f"{text}: other users cannot run it, {closed} is closed to them", REMEDY
        )
    return _hidden_python(text) or Finding("python", OK, text)


def _hidden_python(text: str) -> Finding | None:
    with contextlib.suppress(config.SettingsError):  # the next check tells
        hidden = home_in_tmp.program_hidden_from_jobs(config.load(os.environ))
        if hidden is not None:
            return Finding("python", WARN, f"{text}: {hidden}", home_in_tmp.INSTALL_ELSEWHERE)
    return None


def _settings() -> Finding:
    try:
        settings = config.load(os.environ)
        addresses.check_listen(settings.listen, encrypted=settings.encrypted)
        addresses.check_advertise(settings)
    except config.SettingsError as error:
        return Finding("settings", FAIL, str(error), "correct it; `tgpu doctor --settings` lists them all")
    exposed = exposed_password(os.environ, settings.home)
    if exposed is not None:
        text, _, advice = exposed.rpartition(": ")
        return Finding("settings", FAIL, text, advice)
    return Finding("settings", OK, "readable and consistent")


def _home(home: Path) -> Finding:
    if not home.exists():
        return Finding("home", OK, f"{home} is not there yet; what is started first makes it")
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        return Finding(
            "home", WARN, f"{home} is not yours to write", "set TGPU_HOME, or use its owner's server"
        )
    if home.stat().st_mode & 0o022:
        return Finding("home", WARN, f"{home} can be changed by others", f"chmod go-w {home}")
    with contextlib.suppress(config.SettingsError):  # said before
        hidden = home_in_tmp.hidden_from_jobs(config.load(os.environ))
        if hidden is not None:
            return Finding("home", WARN, hidden, home_in_tmp.REMEDY)
    closed = for_all_users.closed_on_the_way(home) if homes.serves_everybody() else None
    if closed is not None:
        text = (
            f"other users cannot reach {home}, because {closed} is closed to them: their checkpoint folders, "
            "snapshots and `tgpu` inside their jobs fail"
        )
        return Finding("home", WARN, text, f"`tgpu down`, unset TGPU_HOME, and `tgpu up` in {SYSTEM_HOME}")
    return Finding("home", OK, f"{home}")


def _disk(home: Path) -> Finding:
    there = next(path for path in (home, *home.parents) if path.exists())
    free = shutil.disk_usage(there).free >> 20
    if free < _LOW_DISK_MIB:
        return Finding("disk", WARN, f"{words.size(free)} free below {there}", "make room, or move TGPU_HOME")
    return Finding("disk", OK, f"{words.size(free)} free below {there}")


def _server(home: Path) -> Iterator[Finding]:
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
            yield from _nodes(client)
            yield from _alerts(client)
            yield from cluster_checks.of_cluster(client)
            yield from store_checks.of_moved_file(WARN)
        except TgpuError as error:
            facts = list(store_checks.of_facts()) if client.session.address.scheme == "unix" else []
            yield _trouble(error, client.session.address, home, facts)
            yield from facts


def _alerts(client: Client) -> Iterator[Finding]:
    """What the server itself finds wrong; each says what to do."""
    for alert in client.stats().get("alerts", []):
        yield Finding("alert", WARN, f"{alert['name']}: {alert['text']}")


def _trouble(error: TgpuError, address: locate.Address, home: Path, facts: list[Finding]) -> Finding:
    """Why nobody answered, or not as it should be."""
    if any(finding.level == FAIL for finding in facts):
        pid = place.pid_of("server", home)
        if pid is not None or not isinstance(error, UnreachableError):
            who = f"{address} answers" if pid is None else f"pid {pid} runs"
            return Finding(
                "server", WARN, f"{who}, and waits for its store", "mend that; it goes on by itself"
            )
    if not isinstance(error, UnreachableError):
        return Finding("server", FAIL, f"{address} answers: {error}", _advice_refused(error))
    if address.scheme != "unix":
        return Finding("server", FAIL, str(error), "check TGPU_SERVER, and that a server runs there")
    return _none_here(error, Path(address.path), home)


def _none_here(error: UnreachableError, socket: Path, home: Path) -> Finding:
    if socket.exists() and not os.access(socket, os.W_OK):
        advice = f"you may not use {socket}; ask its owner ({socket.owner()})"
        return Finding("server", FAIL, str(error), advice)
    start, pid = place.how_to_start("server", home), place.pid_of("server", home)
    if pid is not None:
        text = f"pid {pid} runs, but does not answer at {socket}"
        return Finding("server", FAIL, text, f"look at its log; then stop it, and start it again: {start}")
    if socket.exists():
        text = f"none runs; {socket} is left over from one that died"
        return Finding("server", FAIL, text, f"start it again: {start}")
    advice = f"start one: {start}, or say where one is with TGPU_SERVER"
    if not place.has_server(home) and not place.has_agent(home):
        advice += "; as a node of a cluster: `tgpu agent --server https://HOST:7480 --join TOKEN`"
    return Finding("server", FAIL, f"none runs in {home}", advice)


def _advice_refused(error: TgpuError) -> str:
    return "check TGPU_TOKEN" if error.status == _UNAUTHORIZED else "look at its log"


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


def _nodes(client: Client) -> Iterator[Finding]:
    nodes = client.nodes()
    ready = [node for node in nodes if node["status"] == "ready"]
    waiting = [str(node["node_id"]) for node in nodes if node.get("approval")]
    nodes = [node for node in nodes if not node.get("approval")]
    gone = [str(node["node_id"]) for node in nodes if node["status"] == "offline"]
    silent = {str(node["node_id"]): node["silent_s"] for node in nodes if node.get("silent_s") is not None}
    away = [name for name in silent if name not in gone]
    coming = [name for name in away if silent[name] < _COMES_BACK_S]
    away = [name for name in away if name not in coming]
    sick = [
        f"GPU {device['index']} of {node['node_id']}"
        for node in nodes
        for device in node.get("devices") or []
        if not device.get("usable", device.get("healthy", True))
    ]
    if not ready:
        advice = "start the agent there: `tgpu agent`, or `tgpu up` on a single machine"
        yield Finding("nodes", FAIL, f"none of {len(nodes)} is ready", advice)
    if waiting:
        advice = "`tgpu nodes approve NODE` lets one in, `tgpu nodes remove NODE` rejects it"
        yield Finding("nodes", WARN, f"waiting for approval: {_named(waiting)}", advice)
    if gone:
        advice = "look at the machine and its agent there; `tgpu nodes remove` forgets one for good"
        yield Finding("nodes", WARN, f"offline: {_named(gone)}", advice)
    if coming:
        verb = "is" if len(coming) == 1 else "are"
        text = f"{_named(coming)} {verb} coming back, heard within the last {_COMES_BACK_S} s"
        yield Finding(
            "nodes", WARN, text, "look again in some seconds; if it stays so, start the agent there"
        )
    if away:
        verb = "is" if len(away) == 1 else "are"
        yield Finding("nodes", WARN, f"{_named(away)} {verb} not connected", "start the agent there")
    if sick:
        text = f"not given out: {_named(sick)}"
        yield Finding("nodes", WARN, text, "see the NOTE column of `tgpu nodes`")
    if ready and not (gone or coming or away or sick):
        gpus = sum(node.get("gpu_total") or 0 for node in ready)
        text = f"{len(ready)} of {len(nodes)} ready, with {words.number(gpus)} GPUs"
        yield Finding("nodes", OK, text)


def _named(names: list[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _gpus(home: Path) -> Finding:
    import pynvml  # noqa: PLC0415  slow to load, and only this check needs it

    from tgpu.agent.inventory.smi import smi_count  # noqa: PLC0415
    from tgpu.wiring import agent_status  # noqa: PLC0415

    status = agent_status.read(config.Settings(home=home))
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        if listed := smi_count():
            return Finding("gpus", OK, f"{words.plural(listed, 'GPU')} seen through nvidia-smi ({error})")
        if status is not None and status.simulated and status.is_connected:
            return Finding("gpus", OK, f"{words.plural(status.gpus, 'simulated GPU')}, and no real ones")
        advice = "install it, or try things out with --simulate-gpus 8"
        return Finding("gpus", WARN, f"no NVIDIA driver here ({error})", advice)
    return Finding("gpus", OK, f"{words.plural(count, 'GPU')} seen through NVML")
