"""Web sessions: sign-in by link and token, the two halves of a session's secret, and what ends it."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.conftest import ServerUnderTest, serving
from tests.api.people import House, house
from tests.api.stories import assign, submit
from tests.api.test_access_table import EVERYBODY, OWN, ask
from tgpu.api.auth import web_session
from tgpu.api.auth.browser_access import BrowserAccess
from tgpu.api.auth.one_time_secrets import MOST, MOST_PER_OWNER, OneTimeSecrets
from tgpu.api.auth.web_session import MOST_SESSIONS, end_sessions_of_earlier_processes
from tgpu.api.routes.whoami import PERMISSIONS, Permission
from tgpu.api.table import endpoints
from tgpu.domain.access import Action, Role
from tgpu.domain.priority import PriorityClass
from tgpu.store.memory import MemoryStore

NAME = "tgpu-test.localhost"
PLAIN = BrowserAccess(f"http://{NAME}", server_id="s1")
KEY = "X-Tgpu-Page-Key"


class Browser:
    """A browser's cookie jar and the page's storage, for one origin."""

    def __init__(self, server: ServerUnderTest, host: str = NAME) -> None:
        self.client = server.tcp()
        self.client.headers["Host"] = f"{host}:{server.port}"
        self.origin = f"http://{host}:{server.port}"
        self.cookie = self.page_key = ""

    def sign_in(self, **asked: str) -> httpx.Response:
        answer = self.client.post("/session", json=asked, headers={"Origin": self.origin})
        if answer.status_code == 201:
            self.page_key = answer.json()["page_key"]
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
            self.client.cookies.clear()
        return answer

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        headers = {"Cookie": self.cookie, KEY: self.page_key, "Origin": self.origin}
        return self.client.request(method, path, headers={**headers, **more.pop("headers", {})}, **more)

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.request("GET", path, **more)


def code_of(link: httpx.Response) -> str:
    assert link.status_code == 201, link.text
    return str(link.json()["url"].partition("#code=")[2])


def signed_in(server: ServerUnderTest, **asked: str) -> Browser:
    browser = Browser(server)
    if not asked:
        with server.unix() as me:
            asked = {"code": code_of(me.post("/session/links"))}
    answer = browser.sign_in(**asked)
    assert answer.status_code == 201, answer.text
    return browser


@pytest.fixture
def server() -> Iterator[ServerUnderTest]:
    with serving(None, {"browser": PLAIN}) as running:
        yield running


@pytest.fixture
def place() -> Iterator[House]:
    with house({"browser": PLAIN}, tenant_rules=()) as found:
        found.tenants("lab", OWN)
        yield found


def test_link_signs_in_once_as_the_user_that_made_it(server: ServerUnderTest, me: str) -> None:
    with server.unix() as client:
        link = client.post("/session/links")
        assert link.headers["cache-control"] == "no-store"
        assert link.json()["url"].startswith(f"http://{NAME}/ui/signin#code=")
        code = code_of(link)
    browser = Browser(server)
    answer = browser.sign_in(code=code)
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    told = browser.get("/whoami").json()
    assert (told["user_id"], told["via"], told["role"], told["token"]) == (me, "session", "admin", None)
    assert told["token_expires_at"] == answer.json()["expires_at"]
    again = Browser(server).sign_in(code=code)
    assert again.status_code == 401
    assert "`tgpu web`" in again.json()["detail"]


def test_link_of_another_user_is_refused_and_stays_valid_if_one_user_is_asked_for(
    server: ServerUnderTest, me: str
) -> None:
    with server.unix() as client:
        code = code_of(client.post("/session/links"))
    browser = Browser(server)
    refused = browser.sign_in(code=code, only_user_id="someone-else")
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:tgpu:problem:another-user")
    assert refused.json()["user_id"] == me
    assert "set-cookie" not in refused.headers
    assert browser.sign_in(code="no-such-code", only_user_id=me).status_code == 401
    assert browser.sign_in(code=code, only_user_id=me).status_code == 201
    assert Browser(server).sign_in(code=code, only_user_id="someone-else").status_code == 401


def test_cookie_is_kept_from_scripts_and_other_sites(server: ServerUnderTest) -> None:
    with server.unix() as client:
        said = Browser(server).sign_in(code=code_of(client.post("/session/links"))).headers["set-cookie"]
    assert said.startswith("tgpu-session=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={168 * 3600}"} <= set(said.split("; "))


def test_session_is_listed_as_a_token_and_revoking_it_ends_it_at_once(server: ServerUnderTest) -> None:
    browser = signed_in(server)
    with server.unix() as client:
        (listed,) = client.get("/tokens").json()["tokens"]
        assert listed["note"] == "dashboard"
        assert browser.get("/jobs").status_code == 200
        assert client.delete(f"/tokens/{listed['token_id']}").status_code == 204
    ended = browser.get("/jobs")
    assert ended.status_code == 401
    assert ended.json()["type"] == "urn:tgpu:problem:session-ended"


def test_neither_half_authenticates_alone(server: ServerUnderTest) -> None:
    browser, other = signed_in(server), signed_in(server)
    for headers in (
        {"Cookie": browser.cookie},
        {KEY: browser.page_key},
        {"Cookie": browser.cookie, KEY: other.page_key},
        {"Cookie": browser.cookie, KEY: ""},
        {"Cookie": browser.cookie.replace("tgpu-session", "other"), KEY: browser.page_key},
    ):
        assert browser.client.get("/jobs", headers=headers).status_code == 401, headers
        assert browser.client.post("/jobs", json={"command": "true"}, headers=headers).status_code == 401
    text = browser.cookie.partition("=")[2]
    for bearer in (text, browser.page_key, f"{text}.{browser.page_key}", text + browser.page_key):
        headers = {"Authorization": f"Bearer {bearer}"}
        assert browser.client.get("/jobs", headers=headers).status_code == 401


def test_cookie_that_another_port_added_does_not_end_the_session(server: ServerUnderTest) -> None:
    browser = signed_in(server)
    added = {"Cookie": f"tgpu-session=planted; {browser.cookie}"}
    assert browser.get("/jobs", headers=added).status_code == 200


def test_pages_of_other_origins_are_refused(server: ServerUnderTest) -> None:
    browser = signed_in(server)
    for origin in ("http://evil.example", f"http://{NAME}:1", f"http://127.0.0.1:{server.port}", "null"):
        assert browser.get("/jobs", headers={"Origin": origin}).status_code == 403
        assert (
            browser.request("POST", "/session", json={"code": "x"}, headers={"Origin": origin}).status_code
            == 403
        )


def test_plain_session_works_only_at_the_host_name_of_the_process(server: ServerUnderTest) -> None:
    browser = signed_in(server)
    for host in ("127.0.0.1", "localhost"):
        headers = {"Host": f"{host}:{server.port}", "Origin": f"http://{host}:{server.port}"}
        assert browser.get("/jobs", headers=headers).status_code == 401
        answer = browser.request("POST", "/session", json={"code": "x"}, headers=headers)
        assert answer.status_code == 421
        assert f"http://{NAME}:{server.port}/ui/" in answer.json()["detail"]
    assert browser.get("/jobs").status_code == 200


def test_session_does_not_work_on_the_unix_socket(server: ServerUnderTest) -> None:
    browser = signed_in(server)
    with server.unix() as client:
        headers = {"Cookie": browser.cookie, KEY: browser.page_key}
        assert client.get("/whoami", headers=headers).json()["via"] == "socket"
        assert client.post("/session", json={"code": "x"}).status_code == 409


def test_session_is_useless_after_the_process_has_ended(me: str) -> None:
    store = MemoryStore()
    with serving(store, {"browser": PLAIN}) as first:
        browser = signed_in(first)
        assert browser.get("/jobs").status_code == 200
    with serving(store, {"browser": PLAIN}) as second:
        second.run(end_sessions_of_earlier_processes(store, "another server", 1))
        stolen = Browser(second)
        stolen.cookie, stolen.page_key = browser.cookie, browser.page_key
        assert stolen.get("/jobs").status_code == 401
        with second.unix() as client:
            (left,) = client.get("/tokens").json()["tokens"]
            assert not left["revoked"], "sessions of other servers are left alone"
            second.run(end_sessions_of_earlier_processes(store, "s1", 1))
            (ended,) = client.get("/tokens").json()["tokens"]
            assert (ended["user_id"], ended["revoked"]) == (me, True)


def test_session_with_tls_outlives_the_process_and_needs_a_secure_cookie() -> None:
    store, secure = MemoryStore(), BrowserAccess("https://localhost")
    with serving(store, {"browser": secure}) as first:
        with first.unix() as client:
            browser = Browser(first, "localhost")
            answer = browser.sign_in(code=code_of(client.post("/session/links")))
        said = answer.headers["set-cookie"].split("; ")
        assert said[0].startswith("__Host-tgpu-session=")
        assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} <= set(said)
    with serving(store, {"browser": secure}) as second:
        second.run(end_sessions_of_earlier_processes(store, "", 1))
        later = Browser(second, "localhost")
        later.cookie, later.page_key = browser.cookie, browser.page_key
        assert later.get("/jobs").status_code == 200


def test_session_expires(server: ServerUnderTest) -> None:
    browser = signed_in(server)
    server.now_ms += 168 * 3_600_000 - 1
    assert browser.get("/jobs").status_code == 200
    server.now_ms += 1
    assert browser.get("/jobs").status_code == 401


def test_sign_out_revokes_the_session_and_removes_the_cookie(server: ServerUnderTest) -> None:
    browser = signed_in(server)
    answer = browser.request("DELETE", "/session")
    assert answer.status_code == 204
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert browser.get("/jobs").status_code == 401
    with server.unix() as client:
        assert client.get("/tokens").json()["tokens"][0]["revoked"]
        assert client.delete("/session").status_code == 409


def test_sign_in_with_a_token_has_exactly_its_limits(place: House) -> None:
    place.person("ann", Role.OPERATOR, "lab")
    limits = {"role": "user", "tenant_id": OWN, "actions": frozenset({Action.READ, Action.SUBMIT})}
    text = place.token_of("ann", **limits, highest_class=PriorityClass.LOW, jobs_left=1)
    browser = signed_in(place.server, token=text)
    told = browser.get("/whoami").json()
    assert (told["user_id"], told["via"]) == ("ann", "session")
    scope = told["token"]
    assert (scope["role"], scope["tenant_id"], scope["actions"]) == ("user", OWN, ["read", "submit"])
    assert (scope["highest_class"], scope["jobs_left"]) == ("low", 1)
    assert told["may"] == ["submit"]
    assert browser.request("POST", "/tokens", json={}).status_code == 403
    job = {"command": "true", "cwd": "/", "tenant_id": OWN, "priority_class": "low"}
    other = signed_in(place.server, token=text)
    assert browser.request("POST", "/jobs", json=job).status_code == 201
    assert other.request("POST", "/jobs", json=job).status_code == 409, (
        "the cap is the token's, not the session's"
    )


def test_session_ends_with_the_token_that_it_was_opened_with(place: House) -> None:
    place.person("ann", Role.USER)
    parent = place.token_of("ann")
    by_token = signed_in(place.server, token=parent)
    with place.server.tcp(parent) as client:
        by_link = signed_in(place.server, code=code_of(client.post("/session/links")))
        rows = [row for row in client.get("/tokens").json()["tokens"] if row["note"] == "dashboard"]
    assert {row["parent_token_id"] for row in rows} == {1}
    with place.server.unix() as root:
        assert root.delete("/tokens/1").status_code == 204
    assert by_token.get("/jobs").status_code == by_link.get("/jobs").status_code == 401


def test_session_lasts_no_longer_than_its_token(server: ServerUnderTest) -> None:
    with server.unix() as client:
        text = server.token(client, expires_in_s=600)
    answer = Browser(server).sign_in(token=text)
    assert "Max-Age=600" in answer.headers["set-cookie"]


def test_link_of_a_token_that_was_revoked_meanwhile_is_refused(server: ServerUnderTest) -> None:
    with server.unix() as client, server.tcp(server.token(client)) as by_token:
        code = code_of(by_token.post("/session/links"))
        assert client.delete("/tokens/1").status_code == 204
    assert Browser(server).sign_in(code=code).status_code == 401


def test_job_opens_no_session(place: House) -> None:
    place.person("ann", Role.ADMIN)
    job_id = submit(place.server, user="ann", tenant_id=OWN)
    assign(place.server, job_id, devices=())
    job = place.job(job_id)
    refused = job.post("/session/links")
    assert refused.status_code == 403
    assert "jobs make no sign-in links" in refused.json()["detail"]
    key = job.headers["Authorization"].removeprefix("Bearer ")
    assert Browser(place.server).sign_in(token=key).status_code == 401


def test_session_makes_no_links(server: ServerUnderTest) -> None:
    assert signed_in(server).request("POST", "/session/links").status_code == 409


def test_what_a_session_makes_belongs_to_its_user(server: ServerUnderTest) -> None:
    """A job or token that was made in the dashboard does not end when the browser signs out."""
    browser = signed_in(server)
    made = browser.request("POST", "/tokens", json={"note": "ci"}).json()
    assert made["parent_token_id"] is None
    browser.request("DELETE", "/session")
    with server.tcp(made["token"]) as client:
        assert client.get("/jobs").status_code == 200


def test_audit_log_names_the_session(server: ServerUnderTest) -> None:
    browser = signed_in(server)
    browser.request("POST", "/tokens", json={"note": "ci"})
    with server.unix() as client:
        newest, opened = client.get("/audit?limit=2").json()["entries"]
    assert (newest["action"], newest["via"], newest["token_id"]) == ("token.create", "session", 1)
    assert (opened["action"], opened["via"]) == ("token.create", "session")


def test_wrong_codes_and_tokens_are_limited_and_right_ones_still_pass(server: ServerUnderTest) -> None:
    browser = Browser(server)
    for _ in range(5):
        assert browser.sign_in(code="wrong").status_code == 401
        assert browser.sign_in(token="tgpu_wrong").status_code == 401
    limited = browser.sign_in(code="wrong")
    assert limited.status_code == 429
    assert int(limited.headers["retry-after"]) <= 60
    assert "this sign-in code is wrong" in limited.json()["detail"]
    assert signed_in(server).get("/jobs").status_code == 200


def test_malformed_sign_ins_are_refused(server: ServerUnderTest) -> None:
    browser = Browser(server)
    for body in ({}, {"code": "a", "token": "b"}, {"code": 1}, {"cod": "a"}, []):
        assert browser.client.post("/session", json=body).status_code == 422, body


def test_no_link_is_made_where_no_browser_could_use_it() -> None:
    with serving(None, {"browser": BrowserAccess(closed="the port is taken")}) as server:
        with server.unix() as me:
            answer = me.post("/session/links")
        assert (answer.status_code, answer.json()["detail"]) == (409, "the port is taken")
        assert Browser(server, "localhost").sign_in(code="x").json()["detail"] == "the port is taken"


def test_link_keeps_the_port_of_a_tunnel(server: ServerUnderTest) -> None:
    with server.unix() as client, server.tcp(server.token(client)) as tunnel:
        link = tunnel.post("/session/links", headers={"Host": "localhost:8080"})
        assert link.json()["url"].startswith(f"http://{NAME}:8080/ui/signin#")


def test_oldest_session_ends_when_there_are_too_many(server: ServerUnderTest) -> None:
    with server.unix() as client:
        text = server.token(client)
    own, first = signed_in(server), signed_in(server, token=text)
    for _ in range(MOST_SESSIONS - 1):
        signed_in(server, token=text)
    assert first.get("/jobs").status_code == 200
    signed_in(server, token=text)
    assert first.get("/jobs").status_code == 401
    assert own.get("/jobs").status_code == 200, "sessions of other tokens and links are not affected"


def test_one_time_secrets_expire_and_are_bounded() -> None:
    now = 0.0
    kept: OneTimeSecrets[int] = OneTimeSecrets(10, lambda: now)
    late = kept.issue("ann", 1)
    now = 10.0
    assert kept.redeem(late) is None
    issued = [kept.issue("ann", number) for number in range(MOST_PER_OWNER + 1)]
    assert kept.redeem(issued[0]) is None
    assert kept.redeem(issued[1]) == 1
    assert kept.redeem(issued[1]) is None
    many = [kept.issue(f"user {number}", number) for number in range(MOST + 1)]
    assert kept.redeem(issued[2]) is None
    assert kept.redeem(many[-1]) == MOST
    assert len(set(many)) == MOST + 1
    assert min(map(len, many)) >= 22, "128 bits"


TOKENS: list[dict[str, Any]] = [
    {},
    *({"role": role.word} for role in Role),
    *({"actions": frozenset({action})} for action in Action),
    {"tenant_id": "lab"},
]


def covered(place: House, permission: Permission) -> list[str]:
    """The endpoints that the permission is about, by what they need."""
    about = {
        Permission.MANAGE_NODES: "/nodes",
        Permission.MANAGE_WINDOWS: "/windows",
        Permission.SUBMIT: "/jobs",
        Permission.MANAGE_TENANTS: "/tenants",
    }.get(permission, "")
    found = [
        f"{each.method} {each.path}"
        for each in endpoints(place.server.services)
        if each.needs in PERMISSIONS[permission] and each.path.startswith(about)
    ]
    assert found, permission
    return found


def test_may_lists_a_permission_exactly_if_its_endpoints_admit_the_caller(place: House) -> None:
    for who in EVERYBODY:
        place.person(who.name, who.role, "*" if who.everywhere else "lab")
    wanted = {permission: covered(place, permission) for permission in Permission}
    wrong = []
    for who in EVERYBODY:
        for narrowed in TOKENS if who.name in {"admin-all", "operator-lab"} else TOKENS[:1]:
            caller = place.caller(who.name, **narrowed)
            may = caller.get("/whoami").json()["may"]
            assert len(may) == len(set(may))
            for permission, names in wanted.items():
                statuses = {name: ask(caller, name, OWN, 999) for name in names}
                is_admitted = not {401, 403} & set(statuses.values())
                if is_admitted != (permission in may):
                    wrong.append((who.name, narrowed, permission, statuses))
    assert not wrong


def test_token_with_a_cap_may_not_make_others(place: House) -> None:
    place.person("ann", Role.USER)
    capped = place.caller("ann", jobs_left=5)
    assert capped.get("/whoami").json()["may"] == ["submit"]
    assert capped.post("/tokens", json={}).status_code == 403


def test_user_who_signs_in_too_often_is_refused_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_session, "MOST_SIGN_INS", 3)
    with serving(None, {"browser": PLAIN}) as server:
        with server.unix() as client:
            text = server.token(client)
        for _ in range(3):
            signed_in(server, token=text)
        rows = server.run(server.store.tokens())
        answer = Browser(server).sign_in(token=text)
        assert answer.status_code == 429
        assert 0 < int(answer.headers["retry-after"]) <= 60
        assert "3 times within a minute" in answer.json()["detail"]
        assert server.run(server.store.tokens()) == rows, "nothing is written"


def test_sessions_of_all_tokens_of_a_user_together_are_limited(
    server: ServerUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_session, "MOST_OF_USER", 3)
    first = signed_in(server)
    for _ in range(2):
        with server.unix() as client:
            signed_in(server, token=server.token(client))
    assert first.get("/jobs").status_code == 200
    with server.unix() as client:
        signed_in(server, token=server.token(client))
    assert first.get("/jobs").status_code == 401
