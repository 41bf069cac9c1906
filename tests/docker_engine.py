"""A Docker engine of the tests' own, with an image of busybox in it; needs root and the package docker.io."""

import contextlib
import http.client
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

IMAGE = "tools:1"
TOOLS = (
    "cat", "chmod", "dd", "echo", "env", "false", "grep", "head", "id", "kill", "ls", "mkdir", "mount",
    "nproc", "printf", "pwd", "rm", "seq", "sh", "sleep", "stat", "stty", "tail", "touch", "tr", "true", "wc",
    "yes",
)  # fmt: skip
HOSTED = ("host", "none")
"""It has no bridge: what a sandbox without network tables can do."""


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("engine", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self._path)


class PrivateEngine:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tgpu-engine-", dir="/tmp"))
        self.socket = self.folder / "docker.sock"
        self.url = f"unix://{self.socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    "dockerd", "--data-root", self.folder / "data", "--exec-root", self.folder / "exec",
                    "-H", self.url, "--pidfile", self.folder / "pid", "--bridge=none", "--iptables=false",
                    "--ip6tables=false", "--shutdown-timeout=2", *more,
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + 60
        while not self._answers():
            assert self._process.poll() is None, f"dockerd ended: {self._last_words()}"
            assert time.monotonic() < deadline, f"dockerd does not answer: {self._last_words()}"
            time.sleep(0.05)

    def stop(self) -> None:
        """As an administrator does: containers end with it, unless they were told to stay."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def kill(self) -> None:
        """As a crash does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(60)
        self._process = None
        self._end_containerd()

    def close(self) -> None:
        is_there = self._process is not None and self._process.poll() is None
        for name in self.names() if is_there else ():
            self.ask("DELETE", f"/containers/{name}?force=1")
        self.stop()
        self._end_containerd()
        for line in Path("/proc/mounts").read_text().splitlines():
            if (place := line.split()[1]).startswith(str(self.folder)):
                subprocess.run(["umount", "-l", place], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body)
        connection = _Connection(str(self.socket))
        try:
            connection.request(method, path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse().read()
        finally:
            connection.close()
        try:
            return json.loads(answer)
        except ValueError:
            return answer.decode(errors="replace")

    def names(self) -> list[str]:
        """Of all containers, running or not."""
        return [one["Names"][0].lstrip("/") for one in self.ask("GET", "/containers/json?all=1")]

    def container(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", f"/containers/{name}/json")
        return found

    def bring(self, image: str = IMAGE, marker: str = "") -> str:
        """Makes the image; its id. Another marker makes another one."""
        name, _, tag = image.rpartition(":")
        self.ask("POST", f"/images/create?fromSrc=-&repo={name}&tag={tag}", tools(marker))
        return str(self.ask("GET", f"/images/{image}/json")["Id"])

    def _answers(self) -> bool:
        try:
            return bool(self.ask("GET", "/_ping") == "OK")
        except OSError:
            return False

    def _last_words(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-2000:]

    def _end_containerd(self) -> None:
        """Of an engine that was killed, its own one lives on."""
        path = self.folder / "exec" / "containerd" / "containerd.pid"
        if path.exists() and (pid := path.read_text().strip()).isdigit():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
            path.unlink()


def tools(marker: str) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for folder in ("bin", "etc", "tmp", "proc", "sys", "dev", "data"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        busybox = shutil.which("busybox")
        assert busybox is not None, "install the package busybox-static"
        tar.add(Path(busybox).resolve(), "bin/busybox")
        for tool in TOOLS:
            entry = tarfile.TarInfo(f"bin/{tool}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
        entry = tarfile.TarInfo("etc/marker")
        entry.size = len(marker.encode())
        tar.addfile(entry, io.BytesIO(marker.encode()))
    return made.getvalue()
