"""Everything that the API does for its users can be asked for by a call of the client."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import tgpu.api.routes
from tgpu.api.endpoint import Endpoint
from tgpu.client import Client, TgpuError

OTHERWISE = {
    "POST /jobs/{}/abort": "the same as DELETE",
    "GET /executors": "the same as GET /nodes",
    "POST /nodes/{}/drain": "drain_nodes takes any number",
    "POST /nodes/{}/undrain": "undrain_nodes takes any number",
    "DELETE /nodes/{}": "remove_nodes takes any number",
    "GET /snapshots/{}": "for nodes; put_snapshot asks whether a large one is there",
    "POST /session": "for browsers",
    "DELETE /session": "for browsers",
    "POST /session/tickets": "for browsers",
    "GET /jobs/{}/terminal": "a conversation: tgpu.client.terminal",
}
MADE_BY_FUNCTIONS = {"POST /jobs", "POST /jobs/{}/rerun", "GET /healthz", "GET /openapi.json", "GET /ca.pem"}


class Page(dict[str, Any]):
    """The last one, of whatever was asked for."""

    def __missing__(self, key: str) -> Any:
        return None if key == "next_cursor" else []


class Recorder:
    """In place of a session: notes what is asked for."""

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def call(self, method: str, path: str, **_: object) -> Page:
        self.asked.add(f"{method} {re.sub('/@[^/]*', '/{}', path)}")
        return Page(complete=True)

    def stream(self, path: str, *_: object) -> Any:
        self.call("GET", path)
        raise TgpuError(404, "nothing to read")


def example(parameter: inspect.Parameter) -> Any:
    said = str(parameter.annotation)
    if "IO[" in said:
        return BytesIO(b"x")
    if "Sequence[Mapping" in said:
        return [{}]
    if parameter.name == "job_ids":
        return ["@1", "@2"]
    return 1 if parameter.name == "size" else "@1"


def asked_by_all_calls() -> set[str]:
    recorder = Recorder()
    client = Client("http://127.0.0.1:1")
    client.session = recorder  # type: ignore[assignment]
    for name, call in inspect.getmembers(client, inspect.ismethod):
        if name.startswith("_") or name == "close":
            continue
        needed = [
            parameter
            for parameter in inspect.signature(call).parameters.values()
            if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        ]
        try:
            found = call(*map(example, needed))
            if isinstance(found, Iterator):
                next(found, None)
        except TgpuError:
            pass  # it was asked, and that is all
    for tenant in (None, "@t"):
        client.members(tenant)
    for tenant in ("*", "@t"):
        client.set_member("@u", tenant, "user")
        client.remove_member("@u", tenant)
    return recorder.asked


def served() -> set[str]:
    found = set(MADE_BY_FUNCTIONS)
    for module in pkgutil.iter_modules(tgpu.api.routes.__path__):
        loaded = importlib.import_module(f"tgpu.api.routes.{module.name}")
        endpoints: tuple[Endpoint, ...] = getattr(loaded, "ENDPOINTS", ())
        found |= {f"{one.method} {re.sub('{[^}]*}', '{}', one.path)}" for one in endpoints}
    return found


def test_every_endpoint_has_its_call() -> None:
    missing = served() - asked_by_all_calls() - OTHERWISE.keys()
    assert not missing


def test_no_call_asks_for_what_is_not_served() -> None:
    unknown = asked_by_all_calls() - served()
    assert not unknown
