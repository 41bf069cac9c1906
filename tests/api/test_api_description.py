"""The API's own description is complete, and the API keeps to it."""

from pathlib import Path
from typing import Any
from unittest import SkipTest

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from litestar import Litestar
from schemathesis import GenerationMode, checks

from tests.api.conftest import FakeLive, FakeLogs, ServerUnderTest
from tgpu.api.app import create_app
from tgpu.api.feed import Feed
from tgpu.api.identity import Identity, Role
from tgpu.api.services import Services
from tgpu.api.table import endpoints
from tgpu.config.settings import Settings
from tgpu.observe.metrics import Metrics
from tgpu.store.memory import MemoryStore

# Who may call what. A new endpoint has to be entered here, so that nobody forgets to think about it.
NEEDED = {
    "GET /": Role.VIEWER,
    "POST /agents/join": None,
    "GET /ca.pem": None,
    "GET /cluster": Role.VIEWER,
    "GET /events": Role.VIEWER,
    "GET /executors": Role.VIEWER,
    "GET /healthz": None,
    "GET /join-tokens": Role.ADMIN,
    "POST /join-tokens": Role.ADMIN,
    "DELETE /join-tokens/{token_id}": Role.ADMIN,
    "GET /jobs": Role.VIEWER,
    "POST /jobs": Role.USER,
    "POST /jobs/cancel": Role.USER,
    "GET /jobs/{job_id}": Role.VIEWER,
    "DELETE /jobs/{job_id}": Role.USER,
    "POST /jobs/{job_id}/abort": Role.USER,
    "GET /jobs/{job_id}/logs": Role.VIEWER,
    "GET /jobs/{job_id}/why": Role.VIEWER,
    "GET /metrics": Role.VIEWER,
    "GET /nodes": Role.VIEWER,
    "POST /nodes/drain": Role.ADMIN,
    "POST /nodes/remove": Role.ADMIN,
    "POST /nodes/undrain": Role.ADMIN,
    "GET /nodes/{node_id}": Role.VIEWER,
    "DELETE /nodes/{node_id}": Role.ADMIN,
    "POST /nodes/{node_id}/drain": Role.ADMIN,
    "POST /nodes/{node_id}/undrain": Role.ADMIN,
    "GET /openapi.json": Role.VIEWER,
    "GET /queues": Role.VIEWER,
    "GET /settings": Role.ADMIN,
    "GET /stats": Role.VIEWER,
    "GET /tenants": Role.VIEWER,
    "POST /tenants": Role.ADMIN,
    "GET /tenants/{tenant_id}": Role.VIEWER,
    "PATCH /tenants/{tenant_id}": Role.ADMIN,
    "GET /tenants/{tenant_id}/quota": Role.VIEWER,
    "PATCH /tenants/{tenant_id}/quota": Role.ADMIN,
    "GET /tokens": Role.VIEWER,
    "POST /tokens": Role.USER,
    "DELETE /tokens/{token_id}": Role.USER,
    "GET /whoami": Role.VIEWER,
    "GET /windows": Role.VIEWER,
    "POST /windows": Role.ADMIN,
    "DELETE /windows/{window_id}": Role.ADMIN,
}


@pytest.fixture(scope="module")
def services() -> Services:
    return Services(
        store=MemoryStore(),
        live=FakeLive(),
        logs=FakeLogs(),
        settings=Settings(home=Path("/nowhere")),
        metrics=Metrics(),
        feed=Feed(),
        now_ms=lambda: 0,
        version="1",
    )


def test_every_endpoint_s_access_is_in_one_table(services: Services) -> None:
    identity = Identity(services.store, services.settings, services.accounts, services.now_ms)
    table = endpoints(services, identity)
    assert {f"{endpoint.method} {endpoint.path}": endpoint.role for endpoint in table} == NEEDED


def test_no_route_exists_beside_the_table(services: Services) -> None:
    app = create_app(services)
    assert isinstance(app, Litestar)
    identity = Identity(services.store, services.settings, services.accounts, services.now_ms)
    known = {
        (endpoint.method, path) for endpoint in endpoints(services, identity) for path in endpoint.routes
    }
    found = {
        (method, route.path)
        for route in app.routes
        for method in route.methods  # type: ignore[union-attr]
        if method != "OPTIONS"
    }
    assert found == known


def test_every_operation_is_described_with_examples_and_errors(quiet_client: httpx.Client) -> None:
    document = quiet_client.get("/openapi.json").json()
    assert document["info"]["title"] == "tgpu"
    assert document["info"]["version"] == "0.0-test"
    described = set()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            where = f"{method.upper()} {path}"
            described.add(where)
            assert operation["summary"], where
            assert operation["description"], where
            assert operation["tags"], where
            responses = operation["responses"]
            good = [response for status, response in responses.items() if status < "300"]
            assert good, where
            for response in good:
                for media in response.get("content", {}).values():
                    assert "example" in media, where
            assert {"400", "401", "403", "500", "503"} <= responses.keys(), where
            for parameter in operation["parameters"]:
                assert parameter["description"], where
                assert "example" in parameter, where
            if "requestBody" in operation:
                media = operation["requestBody"]["content"]["application/json"]
                assert media["examples"], where
                assert "422" in responses, where
            if "{" in path:
                assert "404" in responses, where
    assert described == NEEDED.keys()
    for response in document["components"]["responses"].values():
        assert response["content"]["application/problem+json"]["example"]["detail"]


@pytest.mark.timeout(90)
def test_the_api_keeps_to_its_own_description(server: ServerUnderTest, client: httpx.Client) -> None:
    document: dict[str, Any] = client.get("/openapi.json").json()
    document["servers"] = [{"url": "/"}]
    del document["paths"]["/events"]  # never ends, so that nothing can be checked of it
    schema = schemathesis.openapi.from_dict(document)
    token = server.token(client, role="admin")
    client.post("/jobs", json={"jobs": [{"command": "x"}] * 3})
    kept = [
        checks.not_a_server_error,
        checks.CHECKS.get_one("status_code_conformance"),
        checks.CHECKS.get_one("content_type_conformance"),
        checks.CHECKS.get_one("response_schema_conformance"),
    ]
    with server.tcp(token) as caller:
        for found in schema.get_all_operations():
            for mode in GenerationMode:
                check_one(found.ok(), mode, caller, kept)


def check_one(operation: Any, mode: GenerationMode, caller: httpx.Client, kept: list[Any]) -> None:
    try:
        strategy = operation.as_strategy(generation_mode=mode)
    except (SkipTest, Unsatisfiable):
        return  # nothing can be wrong with a request that has no parts

    @settings(
        max_examples=8,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    @given(case=strategy)
    def keeps_to_it(case: Any) -> None:
        answer = case.call(base_url=str(caller.base_url), headers=dict(caller.headers))
        case.validate_response(answer, checks=kept)

    try:
        keeps_to_it()
    except (SkipTest, Unsatisfiable):
        return
