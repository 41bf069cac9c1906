"""A server of the tests' own: the API's paths on a real unix socket, over jobs that a test sets."""

import json
import re
import socketserver
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

FINAL = ("completed", "failed", "cancelled")
ME = "ann"


def a_job(job_id: int, **changes: Any) -> dict[str, Any]:
    """A job of `ann` that waits, as the API shows it."""
    job: dict[str, Any] = {
        "job_id": job_id,
        "tenant_id": "default",
        "user_id": ME,
        "name": f"job{job_id}",
        "command": ["python", "train.py"],
        "env": {},
        "cwd": "/tmp",
        "cpu_request": 1,
        "mem_request_mb": 0,
        "disk_request_mb": 0,
        "gpu_request": 0,
        "gpu_type": None,
        "gpu_memory_mb": 0,
        "exclusive": False,
        "generic": {},
        "pool": None,
        "node_selector": {},
        "node_rules": [],
        "tolerations": [],
        "priority_class": "default",
        "priority": 0,
        "time_limit_s": None,
        "max_wait_s": None,
        "requeue": True,
        "grace_s": None,
        "status": "pending",
        "cause": None,
        "reason": None,
        "exit_code": None,
        "assigned_node_id": None,
        "devices": [],
        "submitted_at": "2026-01-31T12:00:00.000Z",
        "started_at": None,
        "ended_at": None,
        "attempts": [],
        "events": [],
    }
    return job | changes


def an_attempt(number: int = 1, **changes: Any) -> dict[str, Any]:
    attempt = {
        "number": number,
        "status": "running",
        "node_id": "n1",
        "devices": [0],
        "assigned_at": "2026-01-31T12:00:01.000Z",
        "started_at": "2026-01-31T12:00:01.000Z",
        "ended_at": None,
        "cause": None,
        "reason": None,
        "exit_code": None,
        "signal": None,
        "cpu_time_s": None,
        "peak_memory_mb": None,
    }
    return attempt | changes


JOB_FILTERS = frozenset(
    ("status", "user", "name", "ids", "since", "until", "limit", "cursor", "order", "within", "cause", "node",
     "exit_code", "min_elapsed", "attempts", "started_since", "started_until", "ended_since", "ended_until",
     "expected_start")
)  # fmt: skip


class Refusal(Exception):  # noqa: N818  what a handler answers, not a fault
    def __init__(self, status: int, detail: str, kind: str = "x", **more: object) -> None:
        super().__init__(detail)
        self.status = status
        self.body = {
            **more,
            "type": f"urn:tgpu:problem:{kind}",
            "title": "Refused",
            "status": status,
            "detail": detail,
        }


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64
    fake: "FakeTgpu"


class FakeTgpu:
    """Answers from `jobs`; `requests` is all it was asked; `fixed` answers a path, or a method and a path
    such as `PATCH /tenants/lab`, with one object."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.jobs: dict[int, dict[str, Any]] = {}
        self.logs: dict[tuple[int, str], bytes] = {}
        self.task_logs: dict[tuple[int, int], bytes] = {}
        self.log_times: dict[tuple[int, str], list[tuple[int, str]]] = {}
        self.knows_formats = True  # older servers refuse `format` as an unknown parameter
        self.kept_from = 0  # rotation has dropped the bytes of each stream before this
        self.fixed: dict[str, Any] = {
            "/whoami": {"user_id": ME},
            "/healthz": {"status": "ok"},
            "/stats": {"alerts": []},
        }
        self.requests: list[dict[str, Any]] = []
        self.deaf_to = 0  # so many requests are taken and never answered
        self.on_submit: Callable[[dict[str, Any]], None] = lambda _job: None
        self.changed = threading.Condition()
        self.happened: list[dict[str, Any]] = []
        self._server: _Server | None = None
        self._open: list[Any] = []

    def start(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.unlink(missing_ok=True)
        self._server = _Server(str(self.path), _Handler)
        self._server.fake = self
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """As a crash does it: every connection is cut."""
        if self._server is None:
            return
        self._server.shutdown()
        self._server.server_close()
        self._server = None
        for handler in list(self._open):
            handler.cut()
        with self.changed:
            self.changed.notify_all()

    @property
    def running(self) -> bool:
        return self._server is not None

    def change(self, job_id: int, kind: str, *, task_index: int | None = None, **changes: Any) -> None:
        """The job moves, and the feed says so, if need be of which task."""
        with self.changed:
            self.jobs[job_id] = self.jobs.get(job_id, a_job(job_id)) | changes
            event = {"seq": len(self.happened) + 1, "kind": kind, "job_id": job_id, "data": {}}
            self.happened.append(event | {"task_index": task_index})
            self.changed.notify_all()

    def asked(self, method: str, path: str) -> list[dict[str, Any]]:
        return [one for one in self.requests if (one["method"], one["path"]) == (method, path)]

    def submitted(self) -> list[dict[str, Any]]:
        """The bodies of all submissions."""
        return [one["body"] for one in self.asked("POST", "/jobs")]

    def answer(self, request: dict[str, Any]) -> tuple[int, Any]:
        method, path, query = request["method"], request["path"], request["query"]
        named = f"{method} {path}"
        if named in self.fixed or path in self.fixed:
            fixed = self.fixed[named if named in self.fixed else path]
            if isinstance(fixed, Refusal):
                raise fixed
            return 200, fixed
        if (method, path) == ("POST", "/jobs"):
            return 201, self._submit(request["body"])
        if (method, path) == ("GET", "/jobs"):
            return 200, self._page(query)
        if (method, path) == ("POST", "/jobs/cancel"):
            return 202, self._cancel_many(request["body"]["job_ids"])
        match = re.fullmatch(r"/jobs/(\d+)", path)
        if match and method in ("GET", "DELETE"):
            return 200 if method == "GET" else 202, self._job(int(match[1]))
        raise Refusal(404, f"there is nothing at {path}")

    def _job(self, job_id: int) -> dict[str, Any]:
        if job_id not in self.jobs:
            raise Refusal(404, f"there is no job {job_id}")
        return self.jobs[job_id]

    def _submit(self, body: dict[str, Any]) -> dict[str, Any]:
        many = body.get("jobs", [body])
        ids = []
        for asked in many:
            job_id = max(self.jobs, default=0) + 1
            self.jobs[job_id] = a_job(job_id, **asked)
            self.on_submit(self.jobs[job_id])
            ids.append(job_id)
        return {"job_ids": ids} if "jobs" in body else self.jobs[ids[0]]

    def _page(self, query: dict[str, str]) -> dict[str, Any]:
        unknown = set(query) - JOB_FILTERS
        if unknown:
            raise Refusal(400, f"unknown parameter {unknown}")
        found = [job for job in self.jobs.values() if self._matches(job, query)]
        found.sort(key=lambda job: job["job_id"], reverse=query.get("order", "newest") == "newest")
        start, limit = int(query.get("cursor", 0)), int(query.get("limit", 100))
        hidden = {name for name in ("attempts", "expected_start") if query.get(name) != "true"}
        page = [{key: value for key, value in job.items() if key not in hidden} for job in found]
        more = start + limit < len(page)
        return {"jobs": page[start : start + limit], "next_cursor": start + limit if more else None}

    def _matches(self, job: dict[str, Any], query: dict[str, str]) -> bool:
        user = {"me": ME}.get(query.get("user", ""), query.get("user"))
        ids = query.get("ids")
        return (
            ("status" not in query or job["status"] in query["status"].split(","))
            and user in (None, job["user_id"])
            and (ids is None or str(job["job_id"]) in ids.split(","))
        )

    def _cancel_many(self, ids: list[int]) -> dict[str, Any]:
        there = [job_id for job_id in ids if job_id in self.jobs]
        ended = [job_id for job_id in there if self.jobs[job_id]["status"] in FINAL]
        return {
            "cancelling": [job_id for job_id in there if job_id not in ended],
            "already_ended": ended,
            "not_found": [job_id for job_id in ids if job_id not in self.jobs],
            "forbidden": [],
        }

    def events(self, query: dict[str, str]) -> Iterator[bytes]:
        """Server-sent events from now on."""
        at = len(self.happened)
        yield b": following\n\n"
        while self.running:
            with self.changed:
                if len(self.happened) == at:
                    self.changed.wait(timeout=0.2)
                fresh, at = self.happened[at:], len(self.happened)
            for event in fresh:
                if query.get("job_id") in (None, str(event["job_id"])):
                    yield f"id: {event['seq']}\ndata: {json.dumps(event)}\n\n".encode()

    def first_byte(self, query: dict[str, str]) -> int:
        return max(int(query.get("offset", 0)), self.kept_from)

    def _said(self, job_id: int, query: dict[str, str]) -> bytes:
        task = int(query.get("task", 0))
        said = self.task_logs.get((job_id, task)) if query["stream"] == "stdout" else None
        return self.logs.get((job_id, query["stream"]), b"") if said is None else said

    def output(self, job_id: int, query: dict[str, str]) -> tuple[Iterator[bytes], str]:
        """The job's bytes, and with follow what comes until it has ended; and in which form."""
        pieces = self._pieces(job_id, query)
        if "format" not in query:
            return pieces, "text/plain"
        if not self.knows_formats:
            raise Refusal(400, "there is no parameter 'format'")
        return self._parts(job_id, query, pieces), "application/x-ndjson"

    def _parts(self, job_id: int, query: dict[str, str], pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Each piece as one part; where times are set, in chunks."""
        at = self.first_byte(query)
        for piece in pieces:
            end, times = at + len(piece), self.log_times.get((job_id, query["stream"]), [])
            holds = [time for offset, time in times if offset <= at][-1:] or [None]
            starts = [(at, holds[0]), *((offset, time) for offset, time in times if at < offset < end)]
            ends = [offset for offset, _ in starts[1:]] + [end]
            said = self._said(job_id, query)
            chunks = [
                {"offset": first, "time": time, "base64": b64encode(said[first:last]).decode()}
                for (first, time), last in zip(starts, ends, strict=True)
            ]
            part = {"attempt": 1, "offset": at, "next_offset": end, "complete": False, "chunks": chunks}
            yield json.dumps(part).encode() + b"\n"
            at = end

    def _pieces(self, job_id: int, query: dict[str, str]) -> Iterator[bytes]:
        at = self.first_byte(query)
        while self.running:
            ended = self.jobs[job_id]["status"] in FINAL
            data = self._said(job_id, query)[at:]
            at += len(data)
            if data:
                yield data
            if query.get("follow") != "true" or ended:
                return
            with self.changed:
                self.changed.wait(timeout=0.05)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.fake = self.server.fake
        self.fake._open.append(self)

    def finish(self) -> None:
        self.fake._open.remove(self)
        super().finish()

    def cut(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(2)

    def handle(self) -> None:
        with suppress(OSError):
            super().handle()

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_: object) -> None:
        return

    def _serve(self) -> None:
        url = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        request = {
            "method": self.command,
            "path": url.path,
            "query": query,
            "headers": dict(self.headers),
            "body": self._body(self.rfile.read(length)),
        }
        self.fake.requests.append(request)
        if self.fake.deaf_to:
            self.fake.deaf_to -= 1
            self.cut()
            return
        logs = re.fullmatch(r"/jobs/(\d+)/logs", url.path)
        try:
            if logs:
                self.fake._job(int(logs[1]))
                pieces, kind = self.fake.output(int(logs[1]), query)
                self._stream(pieces, kind, str(self.fake.first_byte(query)))
            elif url.path == "/events":
                self._stream(self.fake.events(query), "text/event-stream", "0")
            else:
                self._send(*self.fake.answer(request))
        except Refusal as refusal:
            self._send(refusal.status, refusal.body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815  the library finds them by these names

    def _body(self, sent: bytes) -> Any:
        if self.headers.get("Content-Type") == "application/octet-stream":
            return sent
        return json.loads(sent) if sent else None

    def _send(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, pieces: Iterator[bytes], kind: str, offset: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("X-Tgpu-Offset", offset)
        self.end_headers()
        for piece in pieces:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
        if self.fake.running:
            self.wfile.write(b"0\r\n\r\n")
