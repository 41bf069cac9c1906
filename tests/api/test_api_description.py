"""The API's own description is complete, and the API keeps to it."""

from pathlib import Path
from typing import Any
from unittest import SkipTest

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode, checks

from tests.api.conftest import FakeLive, FakeLogs, FakeShells, ServerUnderTest
from tgpu.api.feed import Feed
from tgpu.api.services import Services
from tgpu.api.table import endpoints
from tgpu.config.settings import Settings
from tgpu.observe.metrics import Metrics
from tgpu.store.memory import MemoryStore


@pytest.fixture(scope="module")
def services() -> Services:
    return Services(
        store=MemoryStore(),
        live=FakeLive(),
        logs=FakeLogs(),
        shells=FakeShells(),
        settings=Settings(home=Path("/nowhere")),
        metrics=Metrics(),
        feed=Feed(),
        now_ms=lambda: 0,
        version="1",
    )


def test_every_operation_is_described_with_examples_and_errors(
    services: Services, quiet_client: httpx.Client
) -> None:
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
                (media,) = operation["requestBody"]["content"].values()
                assert media["examples"], where
                assert "422" in responses, where
            if "{" in path:
                assert "404" in responses, where
    assert described == {f"{endpoint.method} {endpoint.path}" for endpoint in endpoints(services)}
    for response in document["components"]["responses"].values():
        assert response["content"]["application/problem+json"]["example"]["detail"]


def test_a_body_that_may_be_left_out_is_not_told_to_be_required(quiet_client: httpx.Client) -> None:
    document = quiet_client.get("/openapi.json").json()
    free = {
        path
        for path, methods in document["paths"].items()
        for operation in methods.values()
        if not operation.get("requestBody", {}).get("required", True)
    }
    of_jobs = {f"/jobs/{{job_id}}/{verb}" for verb in ("cancel", "retry", "rerun")}
    assert free == {*of_jobs, "/nodes/{node_id}/drain"}


@pytest.mark.timeout(240)
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
        max_examples=5,
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
