import threading

import httpx
import pytest

from tests.api.conftest import ServerUnderTest


def test_a_tree_of_tenants_is_made_and_shown(client: httpx.Client) -> None:
    made = client.post(
        "/tenants", json={"tenant_id": "lab", "weight": 3, "gpu_limit": 1.5, "cpu_limit": None}
    )
    assert (made.status_code, made.headers["location"]) == (201, "/tenants/lab")
    assert client.post("/tenants", json={"tenant_id": "lab/vision/ann"}).status_code == 422
    assert client.post("/tenants", json={"tenant_id": "lab/vision"}).status_code == 201
    assert (
        client.post("/tenants", json={"tenant_id": "lab/vision/ann", "mem_limit_mb": 1024}).status_code == 201
    )
    shown = client.get("/tenants/lab/vision/ann").json()
    assert (shown["parent_id"], shown["quota"]["mem_limit_mb"]) == ("lab/vision", 1024)
    assert client.get("/tenants/lab%2Fvision%2Fann").json() == shown
    assert client.get("/v1/tenants/lab/vision/ann/quota").json() == shown["quota"]
    assert client.get("/tenants/lab").json() == made.json()
    assert made.json()["quota"] == {
        "quota_id": "lab", "tenant_id": "lab", "cpu_limit": None, "mem_limit_mb": None, "disk_limit_mb": None,
        "gpu_limit": 1.5, "gpu_type_limits": {}, "generic_limits": {}, "running_jobs_limit": None,
        "waiting_jobs_limit": None, "gpu_hours_limit": None, "gpu_hours_period": "month",
        "cpu_used": 0, "mem_used_mb": 0, "disk_used_mb": 0, "gpu_used": 0, "gpu_type_used": {},
        "generic_used": {}, "running_jobs_used": 0, "waiting_jobs_used": 0, "gpu_hours_used": 0,
        "gpu_hours_reserved": 0, "gpu_type_burst": {}, "generic_burst": {},
        "cpu_burst": 0, "mem_burst_mb": 0, "disk_burst_mb": 0, "gpu_burst": 0, "version": 1,
    }  # fmt: skip
    names = {tenant["tenant_id"] for tenant in client.get("/tenants").json()["tenants"]}
    assert names == {"default", "lab", "lab/vision", "lab/vision/ann"}


def test_a_tenant_exists_once(client: httpx.Client) -> None:
    answer = client.post("/tenants", json={"tenant_id": "default"})
    assert answer.status_code == 409
    assert answer.json()["type"] == "urn:tgpu:problem:tenant-exists"


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"tenant_id": "Lab"}, "tenant_id must be up to 8 names"),
        ({"tenant_id": "/lab"}, "tenant_id must be up to 8 names"),
        ({"tenant_id": "a/" * 8 + "a"}, "tenant_id must be up to 8 names"),
        ({"tenant_id": "a" * 64}, "each of up to 63 of a-z, 0-9, _ and -"),
        ({"tenant_id": "Lab"}, "(members, move, quota are reserved)"),
        (
            {"tenant_id": "default/quota"},
            "must not contain the name 'quota': members, move, quota are reserved",
        ),
        (
            {"tenant_id": "lab", "weight": 2.5},
            "weight must be a whole number; got one with a point or an exp",
        ),
        ({"tenant_id": "lab", "weight": 0}, "weight must be from 1 to 1000000; got 0"),
        ({"tenant_id": "lab", "weight": 10**7}, "weight must be from 1 to 1000000"),
        ({"tenant_id": "lab", "gpu_limit": -1}, "gpu_limit must not be negative"),
        ({"tenant_id": "lab", "gpu_limit": 10**12}, "gpu_limit may be at most 100000"),
        ({"tenant_id": "lab", "mem_limit_mb": 0.5}, "mem_limit_mb must be a whole number"),
        ({"tenant_id": "lab", "wieght": 1}, "did you mean weight?"),
        ({"weight": 1}, "tenant_id is missing"),
    ],
)
def test_a_tenant_that_cannot_be_meant_is_refused(
    quiet_client: httpx.Client, asked: dict[str, object], sentence: str
) -> None:
    answer = quiet_client.post("/tenants", json=asked)
    assert answer.status_code == 422
    assert sentence in answer.json()["detail"]


def test_a_weight_is_changed_if_nobody_came_first(client: httpx.Client) -> None:
    tag = client.get("/tenants/default").headers["etag"]
    changed = client.patch("/tenants/default", json={"weight": 5}, headers={"If-Match": tag})
    assert (changed.status_code, changed.json()["weight"]) == (200, 5)
    assert changed.headers["etag"] != tag
    stale = client.patch("/tenants/default", json={"weight": 6}, headers={"If-Match": tag})
    assert stale.status_code == 412
    assert stale.json()["current_version"] == changed.json()["version"]
    assert client.patch("/tenants/default", json={"weight": 7}, headers={"If-Match": "*"}).status_code == 200
    assert client.patch("/tenants/default", json={"weight": 8}).json()["weight"] == 8
    assert client.patch("/tenants/default", json={}).json()["weight"] == 8
    assert client.patch("/tenants/default", json={"weight": 9}, headers={"If-Match": "3"}).status_code == 400


def test_a_quota_is_changed_field_by_field(client: httpx.Client) -> None:
    quota = client.patch("/tenants/default/quota", json={"gpu_limit": 2, "cpu_limit": 8.5}).json()
    assert (quota["gpu_limit"], quota["cpu_limit"], quota["mem_limit_mb"]) == (2, 8.5, None)
    answer = client.patch("/tenants/default/quota", json={"cpu_limit": None, "disk_limit_mb": 7})
    quota = answer.json()
    assert (quota["gpu_limit"], quota["cpu_limit"], quota["disk_limit_mb"]) == (2, None, 7)
    stale = client.patch("/tenants/default/quota", json={"gpu_limit": 1}, headers={"If-Match": '"1"'})
    assert stale.status_code == 412
    tag = {"If-Match": answer.headers["etag"]}
    assert client.patch("/tenants/default/quota", json={"gpu_limit": 1}, headers=tag).status_code == 200
    assert client.post("/jobs", json={"command": "x", "gpu_request": 2}).status_code == 409
    assert client.post("/jobs", json={"command": "x", "gpu_request": 1}).status_code == 201
    assert client.get("/tenants/default/quota").json()["gpu_used"] == 1


def test_an_unknown_tenant_is_not_found(quiet_client: httpx.Client) -> None:
    for path in ("/tenants/no", "/tenants/no/such", "/tenants/no/quota", "/tenants/" + "a/" * 20):
        assert quiet_client.get(path).status_code == 404
        assert quiet_client.patch(path, json={}).status_code == 404


def test_changes_at_once_are_all_taken(server: ServerUnderTest, client: httpx.Client) -> None:
    def change(field: str) -> None:
        with server.unix() as own:
            assert own.patch("/tenants/default/quota", json={field: 64}).status_code == 200

    fields = ("cpu_limit", "mem_limit_mb", "disk_limit_mb", "gpu_limit")
    threads = [threading.Thread(target=change, args=(field,)) for field in fields]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    quota = client.get("/tenants/default/quota").json()
    assert [quota[field] for field in fields] == [64] * 4
