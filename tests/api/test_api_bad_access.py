"""What cannot be meant, and what must not work: in tenants, quotas and names, and in posing as others."""

import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.people import House, house
from tests.api.stories import submit
from tgpu.domain.access import Role
from tgpu.domain.lifecycle import NodeState
from tgpu.domain.node import Capacity, Device, Node
from tgpu.store.port import Batch

MAX_INT = 2**63


@pytest.fixture(scope="module")
def place() -> Iterator[House]:
    with house() as found:
        found.tenants("lab", "lab/vision", "lab/vision/ann", "org")
        found.person("ann", Role.USER, "lab/vision")
        found.person("olga", Role.OPERATOR, "lab")
        devices = (Device(0, "GPU-0", "NVIDIA A100-SXM4", 81920),)
        node = Node("ws1", NodeState.READY, Capacity(8000, 1024, 1024, devices, {"licence": 2}))
        epoch = found.server.run(found.server.store.claim())
        found.server.run(found.server.store.commit(epoch, Batch(1, nodes=[node])))
        yield found


@pytest.fixture(scope="module")
def root(place: House) -> Iterator[httpx.Client]:
    with place.server.unix() as opened:
        yield opened


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("quota", {"gpu_limit": -1}, "gpu_limit must not be negative"),
        ("quota", {"cpu_limit": -0.001}, "cpu_limit must not be negative"),
        ("quota", {"gpu_limit": MAX_INT}, "gpu_limit may be at most 100000"),
        ("quota", {"cpu_limit": 0.0001}, "cpu_limit may have at most 3 decimals"),
        ("quota", {"mem_limit_mb": MAX_INT}, "mem_limit_mb may be at most"),
        ("quota", {"running_jobs_limit": -1}, "running_jobs_limit must not be negative"),
        ("quota", {"running_jobs_limit": 1.5}, "running_jobs_limit must be a whole number"),
        ("quota", {"waiting_jobs_limit": MAX_INT}, "waiting_jobs_limit may be at most"),
        ("quota", {"gpu_hours_limit": 10**10}, "gpu_hours_limit may be at most"),
        ("quota", {"gpu_hours_limit": -1}, "gpu_hours_limit must not be negative"),
        ("quota", {"gpu_hours_period": "year"}, "gpu_hours_period must be one of day, week, month, ever"),
        ("quota", {"gpu_type_limits": {"a100": -1}}, "gpu_type_limits a100 must not be negative"),
        ("quota", {"gpu_type_limits": {"": 1}}, "gpu_type_limits must have names"),
        (
            "quota",
            {"gpu_type_limits": {"A100": 1, "a100": 2}},
            "gpu_type_limits has the same name twice, as 'A100' and 'a100': name it once",
        ),
        (
            "quota",
            {"gpu_type_limits": {"h100": 1}},
            "there is: NVIDIA A100-SXM4. `?force=true` takes it anyway",
        ),
        ("quota", {"generic_limits": {"tape": 1}}, "there is: licence. `?force=true` takes it anyway"),
        ("quota", {"generic_limits": {"licence": 10**10}}, "generic_limits licence may be at most"),
        ("quota", {"gpu_used": 0}, "unknown field 'gpu_used'"),
        ("quota", {"version": 1}, "unknown field 'version'"),
        ("", {"weight": 0}, "weight must be from 1 to 1000000; got 0"),
        ("", {"weight": -3}, "weight must be from 1 to 1000000; got -3"),
        ("", {"weight": 1.5}, "weight must be a whole number"),
        ("", {"weight": None}, "weight"),
        ("", {"role": "admin"}, "unknown field 'role'"),
        ("", {"tenant_id": "org/x"}, "unknown field 'tenant_id'"),
        ("", {"parent_id": "org"}, "unknown field 'parent_id'"),
        ("", {"classes": []}, "classes must have at least one class"),
        ("", {"classes": ["urgent"]}, "classes"),
        (
            "",
            {"default_class": "high", "classes": ["low"]},
            "default_class must be one of low, the classes of",
        ),
        ("", {"max_time_limit_s": 0}, "max_time_limit_s must be at least 1"),
        ("", {"max_time_limit_s": MAX_INT}, "max_time_limit_s may be at most"),
        (
            "",
            {"max_time_limit_s": 5, "default_time_limit_s": 6},
            "default_time_limit_s may be at most 5s, the longest time limit of lab/vision; got 6s",
        ),
        ("", {"budget_gpu_hours": 0}, "budget_gpu_hours must be more than 0"),
        ("", {"budget_gpu_hours": -5}, "budget_gpu_hours must not be negative"),
        ("", {"over_quota": "ask"}, "over_quota"),
        ("", {"may_burst": 2}, "may_burst must be true or false"),
    ],
)
def test_a_change_that_cannot_be_meant_is_refused(
    root: httpx.Client, path: str, body: dict[str, Any], sentence: str
) -> None:
    where = f"/tenants/lab/vision/{path}".rstrip("/")
    before = root.get("/tenants/lab/vision").json()
    answer = root.patch(where, json=body)
    assert answer.status_code == 422, answer.text
    assert sentence in answer.json()["detail"]
    assert root.get("/tenants/lab/vision").json() == before


@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN", "Infinity", "1" * 400])
def test_a_number_beyond_all_numbers_is_refused(root: httpx.Client, number: str) -> None:
    answer = root.patch("/tenants/lab/quota", content=f'{{"gpu_limit": {number}}}')
    assert answer.status_code in (400, 422)
    assert root.get("/tenants/lab/quota").json()["gpu_limit"] is None


def test_a_limit_on_what_nobody_has_is_taken_if_one_insists(root: httpx.Client) -> None:
    body = {"gpu_type_limits": {"H100": 1}, "generic_limits": {"tape": 2}}
    assert root.patch("/tenants/org/quota", json=body).status_code == 422
    quota = root.patch("/tenants/org/quota?force=true", json=body).json()
    assert (quota["gpu_type_limits"], quota["generic_limits"]) == ({"h100": 1}, {"tape": 2})
    gone = {"gpu_type_limits": {"h100": None}, "generic_limits": {"tape": None}}
    assert root.patch("/tenants/org/quota", json=gone).json()["gpu_type_limits"] == {}
    assert root.patch("/tenants/org/quota", json={"gpu_type_limits": {"sxm4": 1}}).status_code == 200
    assert (
        root.post("/tenants", json={"tenant_id": "org/x", "generic_limits": {"tape": 1}}).status_code == 422
    )


@pytest.mark.parametrize(
    ("tenant_id", "to", "status", "sentence"),
    [
        ("lab", "lab/vision/lab", 422, "a tenant cannot be moved into itself"),
        ("lab/vision", "lab/vision/ann/vision", 422, "a tenant cannot be moved into itself"),
        ("lab", "org", 409, "there is a tenant 'org' already"),
        ("lab", "none/lab", 422, "there is no tenant 'none'"),
        ("lab", "a/b/c/d/e/f/g/h/i", 422, "to must be up to 8 names"),
        ("lab", "org/quota", 422, "to must not contain the name 'quota'"),
        ("lab", "../org/lab", 422, "to must be up to 8 names"),
        ("lab", "", 422, "to must be up to 8 names"),
        ("default", "org/default", 409, "tenant default is always there"),
        ("none", "org/none", 404, "there is no tenant 'none'"),
    ],
)
def test_a_move_that_cannot_be_meant_is_refused(
    root: httpx.Client, tenant_id: str, to: str, status: int, sentence: str
) -> None:
    answer = root.post(f"/tenants/{tenant_id}/move", json={"to": to})
    assert answer.status_code == status, answer.text
    assert sentence in answer.json()["detail"]


def test_a_move_too_deep_for_those_below_is_refused(root: httpx.Client) -> None:
    for depth in range(1, 8):
        root.post("/tenants", json={"tenant_id": "/".join(["deep"] + ["x"] * (depth - 1))})
    answer = root.post("/tenants/lab/move", json={"to": "deep/x/x/x/x/x/x/lab"})
    assert answer.status_code == 422
    assert "cannot be a tenant: up to 8 names" in answer.json()["detail"]


def test_a_tenant_with_live_jobs_or_tenants_below_it_stays(place: House, root: httpx.Client) -> None:
    root.post("/tenants", json={"tenant_id": "busy"})
    submit(place.server, "ann", tenant_id="busy")
    answer = root.delete("/tenants/busy")
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:tgpu:problem:tenant-in-use")
    assert "tenant busy has 1 job that has not ended" in answer.json()["detail"]
    answer = root.delete("/tenants/lab")
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:tgpu:problem:tenant-in-use")
    assert root.delete("/tenants/default").status_code == 409


@pytest.mark.parametrize("method", ["PATCH", "DELETE", "POST", "quota"])
def test_a_stale_version_changes_nothing(root: httpx.Client, method: str) -> None:
    root.post("/tenants", json={"tenant_id": f"stale-{method.lower()}"})
    path = f"/tenants/stale-{method.lower()}"
    tag = {"If-Match": root.get(path).headers["etag"]}
    assert root.patch(path, json={"weight": 2}).status_code == 200
    answer = {
        "PATCH": lambda: root.patch(path, json={"weight": 9}, headers=tag),
        "quota": lambda: root.patch(f"{path}/quota", json={"gpu_limit": 9}, headers=tag),
        "DELETE": lambda: root.delete(path, headers=tag),
        "POST": lambda: root.post(f"{path}/move", json={"to": "moved"}, headers=tag),
    }[method]()
    assert (answer.status_code, answer.json()["type"]) == (412, "urn:tgpu:problem:stale-version")
    assert answer.json()["current_version"] == root.get(path).json()["version"]
    assert root.get(path).json()["weight"] == 2
    assert root.get("/tenants/moved").status_code == 404


@pytest.mark.parametrize(
    "tenant_id",
    [
        "..", ".", "a/../b", "a/./b", "a//b", "/a", "a/", "a b", "A", "ä", "a\u202eb", "a%2fb", "a\0b", "-a",
        "_a", "a" * 64, "*", "quota", "members", "move", "a/quota/b", "members/x", "a?b", "a#b", "a;b",
        "a\\b", "",
    ],
)  # fmt: skip
def test_a_name_that_could_be_taken_for_something_else_is_refused(root: httpx.Client, tenant_id: str) -> None:
    answer = root.post("/tenants", json={"tenant_id": tenant_id})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("tenant_id must")


@pytest.mark.parametrize(
    "path",
    [
        "/tenants/lab/../org", "/tenants/lab/%2e%2e/org", "/tenants/lab%2f..%2forg", "/tenants//lab",
        "/tenants/lab//vision", "/tenants/%20lab", "/tenants/LAB", "/tenants/lab%00", "/tenants/lab;x",
        "/tenants/*", "/tenants/l%C3%A4b",
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_no_spelling_of_a_path_reaches_another_tenant(place: House, method: str, path: str) -> None:
    """As bytes on the wire: a well-behaved client would tidy the path up."""
    body = b'{"weight": 77}' if method == "PATCH" else b""
    token = place.token_of("olga")
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    with socket.create_connection(("127.0.0.1", place.server.port)) as wire:
        wire.sendall(
            head.encode() + f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        )
        answer = b""
        while part := wire.recv(65536):
            answer += part
    assert answer.split(b" ")[1] in (b"400", b"403", b"404"), answer
    with place.server.unix() as root:
        weights = {tenant["tenant_id"]: tenant["weight"] for tenant in root.get("/tenants").json()["tenants"]}
    assert 77 not in weights.values()
    assert {"lab", "lab/vision", "org"} <= weights.keys()


def test_a_slash_at_the_end_and_an_encoded_one_name_the_same_tenant(place: House, root: httpx.Client) -> None:
    shown = root.get("/tenants/lab/vision").json()
    assert root.get("/tenants/lab%2Fvision").json() == shown
    olga = place.caller("olga")
    assert olga.patch("/tenants/lab%2Fvision", json={"weight": 1}).status_code == 200
    assert olga.patch("/tenants/lab", json={"weight": 1}).status_code == 403
    assert olga.patch("/tenants/lab/", json={"weight": 1}).status_code in (403, 404)


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-User": "root"},
        {"Remote-User": "root"},
        {"X-Remote-User": "root", "X-Remote-Group": "system:masters"},
        {"X-Forwarded-For": "127.0.0.1", "Forwarded": "for=127.0.0.1;by=root"},
        {"X-Original-URL": "/settings", "X-Rewrite-URL": "/settings"},
        {"X-HTTP-Method-Override": "DELETE"},
    ],
)
def test_headers_make_nobody_another(place: House, headers: dict[str, str]) -> None:
    ann = place.caller("ann")
    told = ann.get("/whoami", headers=headers).json()
    assert (told["user_id"], told["role"]) == ("ann", None)
    assert ann.get("/settings", headers=headers).status_code == 403
    assert ann.post("/tenants", json={"tenant_id": "x"}, headers=headers).status_code == 403


def test_two_authorizations_are_none(place: House) -> None:
    own, other = place.token_of("ann"), place.token_of("olga")
    headers = [("Authorization", f"Bearer {own}"), ("Authorization", f"Bearer {other}")]
    with place.server.tcp() as client:
        assert client.get("/whoami", headers=headers).status_code == 401


def test_a_body_makes_nobody_another(place: House) -> None:
    ann = place.caller("ann")
    answer = ann.post("/jobs", json={"command": "x", "user_id": "olga"})
    assert answer.status_code == 403
    assert "ann may submit only their own jobs" in answer.json()["detail"]
    assert ann.post("/jobs", json={"command": "x", "user": "olga"}).status_code == 422
    assert ann.post("/jobs", json={"command": "x", "tenant_id": "org"}).status_code == 403
    assert ann.post("/tokens", json={"user_id": "olga"}).status_code == 403
    assert ann.put("/tenants/lab/vision/members/ann", json={"role": "admin"}).status_code == 403


def test_nobody_grants_a_tenant_what_its_parent_may_not(place: House, root: httpx.Client) -> None:
    root.patch("/tenants/lab", json={"classes": ["default", "low"], "max_time_limit_s": 100})
    olga = place.caller("olga")
    answer = olga.patch("/tenants/lab/vision", json={"classes": ["real-time", "low"]})
    assert answer.status_code == 422
    assert "lab may use only default, low; got real-time" in answer.json()["detail"]
    wide = olga.patch("/tenants/lab/vision", json={"max_time_limit_s": 10_000})
    assert (wide.status_code, wide.json()["detail"]) == (
        422,
        "max_time_limit_s may be at most 1m40s, as lab has it; got 2h46m40s",
    )
    late = olga.patch("/tenants/lab/vision", json={"default_time_limit_s": 101})
    assert late.json()["detail"] == (
        "default_time_limit_s may be at most 1m40s, the longest time limit of lab/vision; got 1m41s"
    )
    high = olga.patch("/tenants/lab/vision", json={"default_class": "high"})
    assert (high.status_code, high.json()["detail"]) == (
        422,
        "default_class must be one of default, low, the classes of lab/vision; got high",
    )
    new = olga.post("/tenants", json={"tenant_id": "lab/new", "default_class": "high"})
    assert new.status_code == 422
    assert olga.patch(
        "/tenants/lab/vision", json={"max_time_limit_s": 100, "default_class": "low"}
    ).is_success
    job = {"command": "x", "cwd": "/", "tenant_id": "lab/vision", "time_limit_s": 1000}
    assert place.caller("ann").post("/jobs", json=job).status_code == 422
    root.patch("/tenants/lab", json={"classes": None, "max_time_limit_s": None})
    root.patch("/tenants/lab/vision", json={"classes": None, "max_time_limit_s": None})
