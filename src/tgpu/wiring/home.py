"""The home directory of an installation: made with the right doors open to the right people."""

import os
import socket
import uuid
from pathlib import Path

from tgpu.config.home_path import SYSTEM_HOME
from tgpu.config.settings import SYSTEM_SOCKET, Settings, default_home
from tgpu.observe.disk_space import is_full
from tgpu.observe.logs import logger
from tgpu.wiring.private_file import write_private


class HomeError(Exception):
    """The home cannot be used; the text says what to do."""


def serves_everybody() -> bool:
    """Only root can run jobs as whoever submitted them."""
    return os.geteuid() == 0


def prepare(settings: Settings) -> None:
    """Other users may pass through to the socket when there is something for them behind it."""
    everybody = serves_everybody()
    try:
        for path, mode in (
            (settings.home, 0o711 if everybody else 0o700),
            (settings.run_dir, 0o755 if everybody else 0o700),
            (settings.logs_dir, 0o700),
            (settings.agent_dir, 0o700),
        ):
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(mode)
    except OSError as error:
        advice = "free some space" if is_full(error) else "set TGPU_HOME to a directory of your own"
        raise HomeError(f"cannot use {settings.home}: {error.strerror}; {advice}") from error


def public_socket(settings: Settings) -> Path | None:
    """Where all users of the machine find the server, if this is the machine's own installation."""
    if settings.public_socket == "off":
        return None
    if settings.public_socket != "auto":
        return Path(settings.public_socket)
    own = {Path(SYSTEM_HOME), default_home({key: v for key, v in os.environ.items() if key != "TGPU_HOME"})}
    return SYSTEM_SOCKET if serves_everybody() and settings.home in own else None


def server_id(settings: Settings) -> str:
    """Made once with the home: a server that starts again is the same one."""
    path = settings.home / "server-id"
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        made = uuid.uuid4().hex
        write_private(path, made + "\n")
        return made


def last_url(settings: Settings) -> str:
    """Where this server listens, or listened when it last ran, for this machine; empty: nowhere."""
    try:
        return _address_file(settings).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def write_address(settings: Settings, url: str) -> None:
    """For clients and the next start; a server whose disk is full is there all the same."""
    try:
        _address_file(settings).write_text(url + "\n" if url else "", encoding="utf-8")
    except OSError as error:
        logger("server").warning("the file run/address could not be written", error=str(error))


def _address_file(settings: Settings) -> Path:
    return settings.run_dir / "address"


def unix_listener(path: Path, mode: int) -> socket.socket:
    """A listening socket at `path`; a dead one that is in the way is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(mode)
    listener.listen(1024)
    listener.setblocking(False)
    return listener
