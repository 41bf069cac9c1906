"""The SDK's calls about tenants, members and secrets: what goes over the wire."""

import pytest

from tests.client.fake_tgpu import FakeTgpu, Refusal
from tgpu.client import Client, TgpuError
from tgpu.client.tenancy import EVERYWHERE


def test_a_change_may_depend_on_the_version(server: FakeTgpu) -> None:
    server.fixed["/tenants/lab"] = {"tenant_id": "lab", "version": 4}
    server.fixed["/tenants/lab/quota"] = Refusal(412, "somebody changed it first", "stale-version")
    with Client() as client:
        client.change_tenant("lab", weight=2, if_version=3)
        client.change_tenant("lab", weight=2)
        with pytest.raises(TgpuError) as caught:
            client.change_quota("lab", gpu_limit=None, if_version=3)
    assert caught.value.status == 412
    first, second = server.asked("PATCH", "/tenants/lab")
    assert (first["headers"]["If-Match"], first["body"]) == ('"3"', {"weight": 2})
    assert "If-Match" not in second["headers"]
    assert server.asked("PATCH", "/tenants/lab/quota")[0]["body"] == {"gpu_limit": None}


def test_members_are_of_a_tenant_or_of_everything(server: FakeTgpu) -> None:
    server.fixed |= {"/tenants/a/b/members/ann": {"role": "user"}, "/members/ann": {"role": "viewer"}}
    with Client() as client:
        assert client.set_member("ann", "a/b", "user") == {"role": "user"}
        assert client.set_member("ann", EVERYWHERE, "viewer") == {"role": "viewer"}
        client.remove_member("ann", "a/b")
    assert [one["method"] for one in server.requests] == ["PUT", "PUT", "DELETE"]


def test_a_secret_goes_as_the_bytes_it_is(server: FakeTgpu) -> None:
    server.fixed["/secrets/key"] = {}
    with Client() as client:
        client.set_secret("key", b"\x00\xff{")
        client.set_secret("key", b"")
    sent, empty = server.asked("PUT", "/secrets/key")
    assert (sent["body"], sent["headers"]["Content-Length"]) == (b"\x00\xff{", "3")
    assert (empty["body"], empty["headers"]["Content-Length"]) == (b"", "0")


def test_the_audit_log_stops_at_the_limit(server: FakeTgpu) -> None:
    server.fixed["/audit"] = {"entries": [{"audit_id": 2}, {"audit_id": 1}], "next_cursor": "1"}
    with Client() as client:
        assert [entry["audit_id"] for entry in client.audit(limit=2, user="ann")] == [2, 1]
    (asked,) = server.asked("GET", "/audit")
    assert asked["query"] == {"user": "ann", "limit": "2"}
