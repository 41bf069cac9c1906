"""Who is believed, and what each may do: owner, other and administrator, by socket and by token."""

import base64
import json
import os
import pwd
import re
import socket
from pathlib import Path

import httpx
import pytest

from tests.api.conftest import NOW_MS, OTHER, ServerUnderTest, serving
from tests.api.stories import submit

DAY_MS = 24 * 3_600_000
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can pose as others")


def raw(server: ServerUnderTest, text: str, *, unix: bool) -> str:
    """Bytes on the wire, as no well-behaved client would send them."""
    with socket.socket(socket.AF_UNIX if unix else socket.AF_INET) as wire:
        wire.connect(str(server.socket_path) if unix else ("127.0.0.1", server.port))
        wire.settimeout(5)
        wire.sendall(text.encode("latin-1"))
        received = b""
        while part := wire.recv(65536):
            received += part
        return received.decode("latin-1")


@needs_root
def test_the_socket_knows_its_caller(quiet: ServerUnderTest) -> None:
    told = quiet.as_user(OTHER, "GET", "/whoami").json()
    uid = pwd.getpwnam(OTHER).pw_uid
    assert told == {
        "user_id": OTHER,
        "uid": uid,
        "via": "socket",
        "role": None,
        "home_tenant_id": "default",
        "home_exists": True,
        "home_role": "user",
        "memberships": [],
        "token": None,
        "token_expires_at": None,
        "may": ["submit", "manage-own"],
    }


@needs_root
def test_headers_do_not_make_another_of_the_socket_s_caller(quiet: ServerUnderTest) -> None:
    forged = {
        "X-Forwarded-For": "127.0.0.1",
        "X-Tgpu-Peer": "0",
        "tgpu.peer": "0,0,0",
        "X-Remote-User": "root",
    }
    assert quiet.as_user(OTHER, "GET", "/whoami", headers=forged).json()["user_id"] == OTHER


def test_who_brings_a_token_to_the_socket_is_judged_by_it(
    server: ServerUnderTest, client: httpx.Client, me: str
) -> None:
    bearer = {"Authorization": f"Bearer {server.token(client, role='viewer')}"}
    told = client.get("/whoami", headers=bearer).json()
    assert (told["user_id"], told["via"], told["role"]) == (me, "token", "viewer")
    refused = client.post("/jobs", json={"command": "x", "cwd": "/"}, headers=bearer)
    assert (refused.status_code, client.get("/whoami").json()["role"]) == (403, "admin")
    theirs = {"Authorization": f"Bearer {server.token(client, user_id=OTHER)}"}
    assert client.get("/whoami", headers=theirs).json()["user_id"] == OTHER
    # From this machine all the same: its directory is looked at.
    gone = client.post("/jobs", json={"command": "x", "cwd": "/no/such"}, headers=theirs)
    assert "/no/such" in gone.json()["detail"]


@pytest.mark.parametrize("written", ["Bearer tgpu_nobody_s", "Bearer", "Basic cm9vdDo=", ""])
def test_a_token_that_means_nothing_is_refused_on_the_socket_too(
    quiet_client: httpx.Client, written: str
) -> None:
    assert quiet_client.get("/whoami", headers={"Authorization": written}).status_code == 401


@needs_root
def test_a_uid_without_an_account_is_refused(quiet: ServerUnderTest) -> None:
    answer = quiet.as_user(54321, "GET", "/whoami")
    assert answer.status == 403
    assert "uid 54321 has no account on this machine" in answer.json()["detail"]
    assert quiet.as_user(54321, "GET", "/healthz").status == 200


@needs_root
def test_those_named_in_the_settings_are_administrators() -> None:
    with serving(admins=(OTHER,)) as server:
        assert server.as_user(OTHER, "GET", "/whoami").json()["role"] == "admin"
        assert server.as_user(OTHER, "POST", "/tenants", {"tenant_id": "lab"}).status == 201


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer tgpu_wrong"},
        {"Authorization": "Bearer"},
        {"Authorization": "Basic " + base64.b64encode(b"root:root").decode()},
        {"X-Forwarded-For": "unix", "X-Remote-User": "root", "tgpu.peer": "1,0,0"},
    ],
)
@pytest.mark.parametrize("path", ["/whoami", "/jobs", "/metrics", "/openapi.json", "/nothing", "/v1/jobs"])
def test_over_tcp_nobody_is_believed_without_a_token(
    quiet: ServerUnderTest, path: str, headers: dict[str, str]
) -> None:
    with quiet.tcp() as client:
        answer = client.get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.headers["content-type"] == "application/problem+json"


def test_health_is_told_to_anybody(quiet: ServerUnderTest) -> None:
    with quiet.tcp() as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/v1/healthz").status_code == 200


@pytest.mark.parametrize(
    "path", ["/healthz/../whoami", "/healthz/", "//healthz", "/healthz%2f..%2fwhoami", "/healthz;/whoami"]
)
def test_no_spelling_of_the_open_path_opens_another(quiet: ServerUnderTest, path: str) -> None:
    answer = raw(quiet, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", unix=False)
    assert answer.startswith("HTTP/1.1 401")


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.", "0.0.0.0", "127.0.0.2", "[::1", ""]
)
def test_a_foreign_host_is_misdirected(quiet: ServerUnderTest, host: str) -> None:
    with quiet.tcp() as client:
        assert client.get("/healthz", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:7480"])
def test_loopback_hosts_are_our_own(quiet: ServerUnderTest, host: str) -> None:
    with quiet.tcp() as client:
        assert client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("hosts", ["", "Host: localhost\r\nHost: evil.example\r\n"])
def test_no_host_and_two_hosts_are_refused(quiet: ServerUnderTest, hosts: str) -> None:
    answer = raw(quiet, f"GET /healthz HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n", unix=False)
    assert answer.split(" ")[1] in ("400", "421")


def test_a_foreign_origin_is_refused_and_the_own_is_not(
    quiet: ServerUnderTest, quiet_client: httpx.Client
) -> None:
    with quiet.tcp(quiet.token(quiet_client)) as client:
        own = f"http://127.0.0.1:{quiet.port}"
        assert client.get("/whoami", headers={"Origin": own}).status_code == 200
        for origin in ("http://evil.example", "null", "http://127.0.0.1:1", own.replace("http", "https"), ""):
            assert client.get("/whoami", headers={"Origin": origin}).status_code == 403
            assert client.get("/healthz", headers={"Origin": origin}).status_code == 403


def test_the_socket_takes_no_origin(quiet_client: httpx.Client) -> None:
    answer = quiet_client.get("/whoami", headers={"Origin": "http://localhost"})
    assert answer.status_code == 403
    assert "Origin" in answer.json()["detail"]


def test_pipelined_requests_each_have_to_prove_themselves(
    quiet: ServerUnderTest, quiet_client: httpx.Client
) -> None:
    token = quiet.token(quiet_client)
    known = f"GET /whoami HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    unknown = "GET /whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = raw(quiet, known + unknown, unix=False)
    assert re.findall(r"HTTP/1.1 (\d+)", answer) == ["200", "401"]
    both = raw(quiet, "GET /whoami HTTP/1.1\r\nHost: localhost\r\n\r\n" + unknown, unix=True)
    assert both.count('"via":"socket"') == 2


def test_a_websocket_handshake_gets_no_further_than_a_request(quiet: ServerUnderTest) -> None:
    upgrade = (
        "GET /whoami HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    assert raw(quiet, upgrade, unix=False).startswith("HTTP/1.1 401")


@pytest.mark.parametrize("text", ["nonsense\r\n\r\n", "GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_what_is_not_http_is_a_problem_too(quiet: ServerUnderTest, text: str) -> None:
    answer = raw(quiet, text, unix=True)
    assert answer.startswith("HTTP/1.1 400")
    assert "application/problem+json" in answer
    assert json.loads(answer.partition("\r\n\r\n")[2])["status"] == 400


def test_a_token_lasts_until_it_expires_or_is_revoked(server: ServerUnderTest, client: httpx.Client) -> None:
    made = client.post("/tokens", json={"note": "notebook", "expires_in_s": 3600}).json()
    assert made["token"].startswith("tgpu_")
    assert made["expires_at"] == "2030-03-17T18:46:40.000Z"
    (kept,) = server.run(server.store.tokens())
    assert made["token"] not in repr(kept)
    with server.tcp(made["token"]) as caller:
        assert caller.get("/whoami").json()["via"] == "token"
        assert caller.get("/whoami").json()["token_expires_at"] == made["expires_at"]
        server.now_ms = NOW_MS + 3_600_000
        answer = caller.get("/whoami")
        assert answer.status_code == 401
        assert "expired" in answer.json()["detail"]
        server.now_ms = NOW_MS
        assert caller.get("/whoami").status_code == 200
        assert client.delete(f"/tokens/{made['token_id']}").status_code == 204
        assert caller.get("/whoami").status_code == 401
    (listed,) = client.get("/tokens").json()["tokens"]
    assert listed["revoked"] is True
    assert "token" not in listed


def test_users_see_and_revoke_their_own_tokens_only(client: httpx.Client, other: httpx.Client) -> None:
    mine = client.post("/tokens", json={}).json()["token_id"]
    assert [token["user_id"] for token in other.get("/tokens").json()["tokens"]] == [OTHER]
    assert len(client.get("/tokens").json()["tokens"]) == 2
    assert other.delete(f"/tokens/{mine}").status_code == 404
    assert other.delete("/tokens/99999999999999999999").status_code == 404
    own = other.post("/tokens", json={}).json()["token_id"]
    assert other.delete(f"/tokens/{own}").status_code == 204


@pytest.mark.parametrize(
    ("asked", "status", "sentence"),
    [
        ({"user_id": "root"}, 403, "only administrators make tokens for others"),
        ({"role": "admin"}, 403, "a token may grant no more than you have, which is user"),
        ({"role": "emperor"}, 422, "role must be one of viewer, user, operator, admin"),
        ({"expires_in_s": 0}, 422, "expires_in_s must be at least 1"),
        ({"expires_in_s": 10**12}, 422, "expires_in_s may be at most"),
        ({"note": "\x1b[31m"}, 422, "note must be at most 200 printable characters"),
    ],
)
def test_a_user_makes_tokens_within_bounds(
    other: httpx.Client, asked: dict[str, object], status: int, sentence: str
) -> None:
    answer = other.post("/tokens", json=asked)
    assert answer.status_code == status
    assert sentence in answer.json()["detail"]


def test_a_token_made_with_a_token_does_not_outlive_it(server: ServerUnderTest, client: httpx.Client) -> None:
    with server.tcp(server.token(client, expires_in_s=60)) as caller:
        made = caller.post("/tokens", json={"expires_in_s": 3600}).json()
        assert made["expires_at"] == "2030-03-17T17:47:40.000Z"


def test_an_administrator_makes_tokens_for_others_but_not_administrators_of_them(
    client: httpx.Client,
) -> None:
    assert client.post("/tokens", json={"user_id": OTHER}).status_code == 201
    answer = client.post("/tokens", json={"user_id": OTHER, "role": "admin"})
    assert answer.status_code == 422
    assert client.post("/tokens", json={"user_id": "no-such-user"}).status_code == 422


def test_a_viewer_s_token_may_only_look(server: ServerUnderTest, client: httpx.Client) -> None:
    with server.tcp(server.token(client, role="viewer")) as viewer:
        assert viewer.get("/jobs").status_code == 200
        for answer in (
            viewer.post("/jobs", json={"command": "x"}),
            viewer.delete("/jobs/1"),
            viewer.post("/tokens", json={}),
            viewer.post("/tenants", json={"tenant_id": "a"}),
        ):
            assert answer.status_code == 403


@needs_root
@pytest.mark.parametrize("by", ["socket", "token"])
def test_nobody_touches_what_is_another_s(server: ServerUnderTest, client: httpx.Client, by: str) -> None:
    mine, theirs = submit(server), submit(server, user=OTHER)
    server.logs.data["1.0.1", "stdout"] = b"secret"
    tenant = {"tenant_id": "lab"}
    matrix = [
        ("GET", f"/jobs/{mine}", None, 200),
        ("GET", f"/jobs/{mine}/why", None, 200),
        ("GET", f"/jobs/{mine}/logs", None, 403),
        ("DELETE", f"/jobs/{mine}", None, 403),
        ("POST", f"/jobs/{mine}/abort", None, 403),
        ("GET", f"/jobs/{theirs}/logs", None, 200),
        ("POST", "/jobs", {"command": "x", "cwd": "/", "user_id": "root"}, 403),
        ("POST", "/jobs", {"command": "x", "cwd": "/", "user_id": OTHER}, 201),
        ("POST", "/tenants", tenant, 403),
        ("PATCH", "/tenants/default", {"weight": 2}, 403),
        ("PATCH", "/tenants/default/quota", {"gpu_limit": 1}, 403),
        ("DELETE", f"/jobs/{theirs}", None, 202),
    ]
    token = server.token(client, user_id=OTHER)
    for method, path, body, status in matrix:
        if by == "socket":
            found = server.as_user(OTHER, method, path, body).status
        else:
            with server.tcp(token) as caller:
                found = caller.request(method, path, json=body).status_code
        assert found == status, (method, path)
    assert client.delete(f"/jobs/{mine}").status_code == 202
    assert client.get(f"/jobs/{theirs}/logs").status_code == 200
    for_other = client.post("/jobs", json={"command": "x", "cwd": "/", "user_id": OTHER}).json()
    assert for_other["user_id"] == OTHER


def test_cancel_and_logs_are_open_to_others_where_the_house_allows_it() -> None:
    with serving(others_may=("cancel", "logs")) as server, server.unix() as client:
        submit(server)
        with server.tcp(server.token(client, user_id=OTHER)) as other:
            assert other.get("/jobs/1/logs").status_code == 200
            assert other.delete("/jobs/1").status_code == 202
            assert other.get("/jobs/1").json()["command"] is None


@needs_root
def test_a_private_directory_is_not_given_away(
    quiet: ServerUnderTest, quiet_client: httpx.Client, tmp_path_factory: pytest.TempPathFactory
) -> None:
    private = tmp_path_factory.mktemp("private")
    private.chmod(0o700)
    (private / "there").mkdir()
    link = Path(quiet.socket_path).parent / "link"
    link.symlink_to(private / "nothing")
    with quiet.tcp(quiet.token(quiet_client, user_id=OTHER)) as other:
        # What decides is whether the two answers differ: both jobs would fail to start, and say so then.
        probes = [private / "there", private / "not-there", link]
        bad = {"gpu_request": 100}  # so that nothing is submitted here
        told = [
            other.post("/jobs", json={"command": "x", "cwd": str(path), **bad}).json()["detail"]
            for path in probes
        ]
    assert len(set(told)) == 1
