"""Commands of administrators: drain, undrain and remove nodes, and keep them for a time."""

import json
import re
import threading
from pathlib import Path

import pytest
from fake_tgpu import FakeTgpu, Refusal

from tests.cli.cli_process import Tgpu
from tgpu.wiring import service_unit


def test_nodes_are_drained_by_name_or_by_label(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/nodes/drain"] = {"nodes": ["n1", "n2"]}
    done = tgpu("nodes", "drain", "n1", "n2", "--reason", "new fans")
    assert (done.returncode, done.stdout) == (0, "Draining: nothing new starts on n1, n2\n")
    assert json.loads(tgpu("nodes", "drain", "--where", "rack=r7", "--json").stdout) == {
        "nodes": ["n1", "n2"]
    }
    assert [one["body"] for one in server.asked("POST", "/nodes/drain")] == [
        {"nodes": ["n1", "n2"], "where": [], "reason": "new fans"},
        {"nodes": [], "where": ["rack=r7"], "reason": ""},
    ]
    server.fixed |= {"/nodes/undrain": {"nodes": ["n1"]}, "/nodes": {"nodes": [{"node_id": "n1"}]}}
    assert tgpu("nodes", "undrain", "n1").stdout == "Nothing was changed; not drained: n1\n"
    server.fixed["/nodes"]["nodes"][0]["drain"] = {"reason": "", "by": "ann"}
    assert tgpu("nodes", "undrain", "n1").stdout == "Takes tasks again: n1\n"
    assert tgpu("nodes", "undrain", "n1", "-q").stdout == "n1\n"
    assert tgpu("nodes", "-q", "undrain", "n1").stdout == "n1\n"
    for words in (("--json", "undrain", "n1"), ("undrain", "n1", "--json")):
        assert json.loads(tgpu("nodes", *words).stdout) == {"nodes": ["n1"]}
    server.fixed["/nodes/remove"] = {"nodes": ["n1"]}
    assert tgpu("nodes", "remove", "n1").stdout == "Removed; to come back it must join anew: n1\n"


def test_servers_are_listed_with_who_leads(server: FakeTgpu, tgpu: Tgpu) -> None:
    of = {"version": "1.2", "settings": "x", "started_at": "2026-01-31T12:00:00.000Z"}
    first = {**of, "server_id": "s1", "url": "https://a:7480", "leads": False}
    second = {**of, "server_id": "s2", "url": "https://b:7480", "leads": True, "heard_s": 2.1}
    server.fixed["/cluster"] = {"servers": [first, second]}
    head, one, two = tgpu("servers").stdout.splitlines()
    assert head.split() == ["SERVER", "ROLE", "VERSION", "RUNS", "SINCE", "HEARD", "ID"]
    assert ("  -  " in one, "  2s ago  " in two) == (True, True), "one of an older version does not tell"
    assert (one.split()[:3], two.split()[:3]) == (
        ["https://a:7480", "follows", "1.2"],
        ["https://b:7480", "leads", "1.2"],
    )
    assert tgpu("servers", "-q").stdout == "https://a:7480\nhttps://b:7480\n"
    assert json.loads(tgpu("servers", "--json").stdout) == [first, second]
    server.fixed["/cluster"] = {"servers": [first]}
    assert "No server leads: a new one is being chosen." in tgpu("servers").stdout


@pytest.mark.parametrize("words", [("drain",), ("undrain",), ("drain", "n1", "--where", "a")])
def test_which_nodes_must_be_clear(server: FakeTgpu, tgpu: Tgpu, words: tuple[str, ...]) -> None:
    done = tgpu("nodes", *words)
    assert done.returncode == 2
    assert "which nodes?" in done.stderr
    assert tgpu("nodes", "drain", "n1", "--timeout", "1s").returncode == 2
    assert server.requests == []


def test_what_the_server_refuses_ends_with_its_words(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/nodes/drain"] = Refusal(409, "n1 is draining already, ordered by bob")
    done = tgpu("nodes", "drain", "n1")
    assert (done.returncode, done.stderr) == (6, "tgpu: n1 is draining already, ordered by bob\n")
    server.fixed["/nodes/remove"] = Refusal(404, "there is no node n7")
    assert tgpu("nodes", "remove", "n7").returncode == 4


def test_wait_ends_when_nothing_runs_there_any_more(server: FakeTgpu, tgpu: Tgpu) -> None:
    drain = {"reason": "", "by": "ann", "since": "2026-01-31T12:00:00.000Z"}
    node = {"node_id": "n1", "status": "draining", "running": ["4.0.1"], "drain": drain}
    server.fixed |= {"/nodes/drain": {"nodes": ["n1"]}, "/nodes": {"nodes": [node]}}
    late = tgpu("nodes", "drain", "n1", "--wait", "--timeout", "0")
    assert (late.returncode, late.stderr) == (124, "tgpu: 1 attempt still there; the nodes go on draining\n")
    empty = threading.Timer(0.3, lambda: server.fixed.update({"/nodes": {"nodes": [node | {"running": []}]}}))
    empty.start()
    done = tgpu("nodes", "drain", "n1", "--wait")
    assert (done.returncode, done.stdout) == (0, "Empty, and nothing new starts on n1\n")
    server.fixed["/nodes"] = {"nodes": [node | {"drain": None}]}
    taken_back = tgpu("nodes", "drain", "n1", "--wait")
    assert (taken_back.returncode, taken_back.stderr) == (1, "tgpu: somebody took the order back: n1\n")


def test_wait_is_for_nodes_that_drain_already_too(server: FakeTgpu, tgpu: Tgpu) -> None:
    labels = {"rack": "r7"}
    drained = {"node_id": "n1", "running": [], "drain": {"reason": "", "by": "ann"}, "labels": labels}
    server.fixed["/nodes/drain"] = Refusal(409, "n1 is draining already, ordered by ann")
    server.fixed["/nodes"] = {"nodes": [drained, drained | {"node_id": "n2", "labels": {}}]}
    for which in (("n1",), ("--where", "rack=r7")):
        done = tgpu("nodes", "drain", *which, "--wait")
        assert (done.returncode, done.stdout) == (0, "Empty, and nothing new starts on n1\n")
    busy = drained | {"running": ["4.0.1"]}
    server.fixed |= {
        "/nodes/drain": {"nodes": ["n2"]},
        "/nodes": {"nodes": [busy, drained | {"node_id": "n2"}]},
    }
    assert tgpu("nodes", "drain", "--where", "rack=r7", "--wait", "--timeout", "0").returncode == 124
    server.fixed["/nodes/drain"] = Refusal(403, "you may not")
    assert tgpu("nodes", "drain", "n1", "--wait").returncode == 5


def test_nodes_that_wait_for_approval_are_shown_and_approved(server: FakeTgpu, tgpu: Tgpu) -> None:
    waiting = {"since": "2026-01-31T12:00:00.000Z", "token_id": 1, "address": "10.0.0.7"}
    plain = {"node_id": "n1", "status": "ready", "drain": None}
    server.fixed["/nodes"] = {
        "nodes": [plain, plain | {"node_id": "n2", "status": "offline", "approval": waiting}]
    }
    lines = [re.split(r"\s{2,}", line) for line in tgpu("nodes").stdout.splitlines()]
    assert [line[:2] for line in lines[1:3]] == [["n1", "ready"], ["n2", "waits for approval"]]
    server.fixed |= {f"/nodes/{name}/approve": {"nodes": [name]} for name in ("n2", "n3")}
    done = tgpu("nodes", "approve", "n2", "n3")
    assert (done.returncode, done.stdout) == (0, "Approved; it gets work within seconds: n2, n3\n")
    assert len(server.asked("POST", "/nodes/n2/approve")) == 1
    server.fixed["/nodes/n4/approve"] = Refusal(404, "no node 'n4' has joined by a token", "not-found")
    assert tgpu("nodes", "approve", "n4").returncode == 4


def test_join_token_is_made_with_limits_and_listed_with_them(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/join-tokens"] = {"token": "tgpujoin_secret", "token_id": 4}
    flags = (
        "--name",
        "n1",
        "--address",
        "10.0.0.0/24",
        "--label",
        "zone=a",
        "--label",
        "ssd",
        "--serves",
        "ann",
    )
    assert tgpu("nodes", "join-token", *flags).returncode == 0
    limits = {"node_name": "n1", "address": "10.0.0.0/24", "labels": ["zone=a", "ssd"], "serves": "ann"}
    (asked,) = server.asked("POST", "/join-tokens")
    assert {name: asked["body"][name] for name in limits} == limits
    server.fixed["/join-tokens"] = {"join_tokens": [{"token_id": 4, "created_by": "ann", **limits}]}
    said = tgpu("nodes", "join-tokens").stdout
    assert "node n1, from 10.0.0.0/24, labels zone=a ssd, jobs of ann" in said


def test_nodes_show_why_they_are_drained(server: FakeTgpu, tgpu: Tgpu) -> None:
    plain = {"node_id": "n1", "status": "ready", "drain": None}
    drained = {"node_id": "n2", "status": "offline", "drain": {"reason": "new fans", "by": "ann"}}
    silent = {"node_id": "n3", "status": "draining", "drain": {"reason": "", "by": "bob"}}
    server.fixed["/nodes"] = {"nodes": [plain]}
    assert "DRAINED FOR" not in tgpu("nodes").stdout
    server.fixed["/nodes"] = {"nodes": [plain, drained, silent]}
    lines = [re.split(r"\s{2,}", line) for line in tgpu("nodes").stdout.splitlines()]
    assert lines[0][:3] == ["NODE", "STATUS", "DRAINED FOR"]
    assert lines[2][:3] == ["n2", "offline", "new fans (ann)"]
    assert lines[3][:3] == ["n3", "draining", "ordered by bob"]


WINDOW = {
    "window_id": 3,
    "kind": "reservation",
    "name": "course",
    "nodes": ["n1"],
    "where": ["rack=r7"],
    "tenant_id": "org",
    "from": "2030-01-31T12:00:00.000Z",
    "until": "2030-01-31T18:00:00.000Z",
    "created_by": "ann",
    "created_at": "2030-01-30T12:00:00.000Z",
    "state": "coming",
}


def test_windows_are_made_from_moments_and_durations(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/windows"] = WINDOW
    words = ("windows", "create", "n1", "--where", "rack=r7")
    span = ("--from", "2030-01-31T12:00", "--for", "6h")
    done = tgpu(*words, *span, "--for-tenant", "org", "--name", "course")
    assert (done.returncode, done.stdout) == (
        0,
        "Window 3 keeps the nodes for org from 2030-01-31 12:00 UTC to 2030-01-31 18:00 UTC\n",
    )
    server.fixed["/windows"] = WINDOW | {"overlaps": [1, 2]}
    assert "It overlaps with windows 1, 2" in tgpu(*words, "--for", "2h").stdout
    assert tgpu(*words, "--until", "2030-02-01", "-q").stdout == "3\n"
    first, _, second = (one["body"] for one in server.asked("POST", "/windows"))
    assert first == {
        "nodes": ["n1"],
        "where": ["rack=r7"],
        "from": "2030-01-31T12:00:00Z",
        "until": "2030-01-31T18:00:00Z",
        "tenant_id": "org",
        "name": "course",
    }
    assert ("from" in second, second["until"]) == (False, "2030-02-01T00:00:00Z")
    for wrong in (("--for", "soon"), ("--until", "soon"), (), ("--for", "1h", "--until", "2h")):
        assert tgpu(*words, *wrong).returncode == 2
    assert tgpu("windows", "create", "--for", "1h").returncode == 2


def test_what_is_wrong_with_a_window_is_told_by_its_flag(server: FakeTgpu, tgpu: Tgpu) -> None:
    words = ("windows", "create", "n1", "--for", "1h")
    for refusal, said in (
        ("tenant_id: there is no tenant 'x'", "--for-tenant: there is no tenant 'x'"),
        ("until must be at most a year ahead", "--for must be at most a year ahead"),
        ("there is no node n1", "there is no node n1"),
    ):
        server.fixed["/windows"] = Refusal(422, refusal, "invalid-field")
        done = tgpu(*words, "--for-tenant", "x")
        assert (done.returncode, done.stderr) == (2, f"tgpu: {said}\n")


def test_windows_are_listed_and_cancelled(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/windows"] = {"windows": [WINDOW, WINDOW | {"window_id": 2, "state": "over"}]}
    row = re.split(r"\s{2,}", tgpu("windows", "list").stdout.splitlines()[1].strip())
    assert row == [
        "3", "coming", "org", "2030-01-31 12:00 UTC", "2030-01-31 18:00 UTC", "n1 [rack=r7]", "ann", "course",
    ]  # fmt: skip
    assert tgpu("windows", "list", "--all", "-q").stdout == "3\n2\n"
    assert json.loads(tgpu("windows", "list", "--json").stdout) == [WINDOW]
    server.fixed["/windows"] = {"windows": []}
    assert tgpu("windows", "list").stdout == "no windows are open or to come\n"
    server.fixed["/windows/3"] = {}
    server.fixed["/windows/2"] = {}
    assert tgpu("windows", "cancel", "3").stdout == "Window 3 is cancelled\n"
    assert tgpu("windows", "cancel", "2", "3", "2").stdout == "Window 2 is cancelled\nWindow 3 is cancelled\n"
    assert json.loads(tgpu("windows", "cancel", "2", "3", "--json").stdout) == [
        {"window_id": "2"},
        {"window_id": "3"},
    ]
    server.fixed["/windows/4"] = Refusal(404, "there is no window 4")
    partly = tgpu("windows", "cancel", "2", "4", "3")
    assert (partly.returncode, partly.stderr) == (4, "tgpu: cancelled: 2; but there is no window 4\n")
    assert tgpu("windows").stdout == "no windows are open or to come\n"


def test_nodes_are_listed_or_shown_and_say_for_whom_they_are_kept(server: FakeTgpu, tgpu: Tgpu) -> None:
    window = {"window_id": 3, "name": "", "tenant_id": None, "until": "2030-01-31T18:00:00.000Z"}
    nodes = [{"node_id": f"n{n}", "status": "ready", "windows": [window] if n == 1 else []} for n in (1, 2)]
    server.fixed["/nodes"] = {"nodes": nodes}
    assert tgpu("nodes", "list", "-q").stdout == tgpu("nodes", "-q").stdout == "n1\nn2\n"
    shown = tgpu("nodes", "show", "n1").stdout
    assert "maintenance until 2030-01-31 18:00 (window 3)" in shown
    assert "n2" not in shown
    unknown = tgpu("nodes", "show", "n1", "n9")
    assert (unknown.returncode, "there is no node n9" in unknown.stderr) == (4, True)


def test_join_tokens_say_why_they_are_worthless(server: FakeTgpu, tgpu: Tgpu) -> None:
    token = {"token_id": 1, "created_by": "root", "expires_at": "2020-01-31T18:00:00.000Z", "uses_left": 1}
    used = token | {"token_id": 2, "uses_left": 0}
    good = token | {"token_id": 3, "expires_at": "2999-01-31T18:00:00.000Z"}
    gone = token | {"token_id": 4, "expires_at": None, "revoked": True}
    server.fixed["/join-tokens"] = {"join_tokens": [token, used, good, gone]}
    rows = [re.split(r"\s{2,}", row.strip()) for row in tgpu("nodes", "join-tokens").stdout.splitlines()]
    assert [row[:4] for row in rows] == [
        ["ID", "STATE", "BY", "EXPIRES"],
        ["1", "expired", "root", "2020-01-31 18:00:00"],
        ["2", "used", "root", "2020-01-31 18:00:00"],
        ["3", "good", "root", "2999-01-31 18:00:00"],
        ["4", "revoked", "root", "never"],
    ]


def test_a_service_is_installed_with_its_flags(
    tgpu: Tgpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_unit, "path", lambda service: tmp_path / f"{service.unit}.service")
    store = "postgresql://u:hunter2@h/d"
    done = tgpu("server", "--install-service", "--store", store, "--listen", "127.0.0.1:7480")
    assert done.returncode == 0, done.stderr
    assert "enable --now tgpu-server" in done.stdout
    assert "hunter2" not in done.stdout + (tmp_path / "tgpu-server.service").read_text()
    kept = (tmp_path / "home" / "tgpu-server.env").read_text()
    assert kept == f'TGPU_STORE="{store}"\nTGPU_LISTEN="127.0.0.1:7480"\n'
    servers = "https://a:1,https://b:1"
    assert tgpu("agent", "--install-service", "--server", servers, "--join", "@/t").returncode == 0
    kept = (tmp_path / "home" / "tgpu-agent.env").read_text()
    assert kept == f'TGPU_NODE_SERVERS="{servers}"\nTGPU_JOIN_TOKEN="@/t"\n'


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("backup", "copy"), 6, "nothing was ever kept here"),
        (("restore",), 2, "what was put back?"),
        (("restore", "x", "--database"), 2, "what was put back?"),
        (("restore", "nothing.db"), 6, "there is no nothing.db"),
        (("restore", "--database"), 6, "keeps its facts in a file"),
        (("promote",), 2, "--to"),
        (("promote", "--to", "postgresql://u@127.0.0.1:1/x"), 6, "keeps nothing in a file"),
        (("promote", "--to", "mysql://u@h/x"), 6, "begins with postgresql://"),
    ],
)
def test_what_cannot_be_moved_is_refused_with_a_sentence(
    tgpu: Tgpu, words: tuple[str, ...], code: int, said: str
) -> None:
    done = tgpu(*words)
    assert done.returncode == code
    assert said in done.stderr
