"""A registry on loopback, as small as an engine can pull from."""

import base64
import gzip
import hashlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"
_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


class FakeRegistry:
    """Images are made of one layer each; `password` locks all of it; `pause_s` makes every blob slow."""

    def __init__(self) -> None:
        self.password = ""
        self.pause_s = 0.0
        self.asked: list[str] = []
        self._manifests: dict[str, bytes] = {}
        self._blobs: dict[str, bytes] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def push(self, name: str, tag: str, layer: bytes) -> str:
        """The tar becomes this image; its digest."""
        packed = gzip.compress(layer, 1, mtime=0)
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {"Env": ["PATH=/bin"]},
                "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
                "history": [{"created_by": "a test"}],
            }
        ).encode()
        manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": {"mediaType": _CONFIG, "size": len(config), "digest": _digest(config)},
                "layers": [{"mediaType": _LAYER, "size": len(packed), "digest": _digest(packed)}],
            }
        ).encode()
        for blob in (packed, config):
            self._blobs[_digest(blob)] = blob
        for reference in (tag, _digest(manifest)):
            self._manifests[f"{name}/{reference}"] = manifest
        return _digest(manifest)

    def answer(self, path: str, authorization: str) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(path)
        if self.password:
            wanted = base64.b64encode(f"ann:{self.password}".encode()).decode()
            if authorization != f"Basic {wanted}":
                return (
                    401,
                    {"WWW-Authenticate": 'Basic realm="tests"'},
                    _errors("UNAUTHORIZED", "unauthorized"),
                )
        if path == "/v2/":
            return 200, {}, b"{}"
        kind, _, reference = path.removeprefix("/v2/").rpartition("/")
        if kind.endswith("/manifests"):
            found = self._manifests.get(f"{kind.removesuffix('/manifests')}/{reference}")
            if found is not None:
                return 200, {"Content-Type": MANIFEST, "Docker-Content-Digest": _digest(found)}, found
        elif reference in self._blobs:
            time.sleep(self.pause_s)
            return 200, {"Content-Type": "application/octet-stream"}, self._blobs[reference]
        return 404, {}, _errors("MANIFEST_UNKNOWN", "manifest unknown")


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _errors(code: str, message: str) -> bytes:
    return json.dumps({"errors": [{"code": code, "message": message}]}).encode()


def _handler(registry: FakeRegistry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._reply(with_body=True)

        def do_HEAD(self) -> None:
            self._reply(with_body=False)

        def log_message(self, *_: Any) -> None:
            pass

        def _reply(self, *, with_body: bool) -> None:
            status, headers, body = registry.answer(self.path, self.headers.get("Authorization", ""))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
            self.end_headers()
            if with_body:
                self.wfile.write(body)

    return Handler
