"""Where the house keeps tenants apart, nobody learns of jobs in tenants in which they have no role."""

import json
import re
from collections.abc import Iterator

import httpx
import pytest

from tests.api.people import House, house
from tests.api.stories import assign, end, start, submit
from tgpu.domain.access import Role
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.domain.priority import PriorityClass
from tgpu.domain.views import Alert, DeviceView, Holder, QueueView, Reason, Why

ANNS, BOBS, CITED = 1, 2, 3


@pytest.fixture
def place() -> Iterator[House]:
    with house(others_see="nothing", tenant_rules=("user:bob=org", "user:ann=lab/ann")) as found:
        found.tenants("lab", "lab/ann", "org")
        for name in ("ann", "bob", "eve"):
            found.person(name)
        found.person("vic", Role.VIEWER, "lab")
        found.person("ott", Role.OPERATOR)
        assert submit(found.server, "ann", "anns", tenant_id="lab/ann") == ANNS
        assert submit(found.server, "bob", "bobs", tenant_id="org") == BOBS
        assert submit(found.server, "bob", "cited", tenant_id="lab/ann") == CITED
        yield found


@pytest.mark.parametrize(
    ("who", "known"),
    [
        ("ann", {ANNS, CITED}),
        ("bob", {BOBS, CITED}),
        ("vic", {ANNS, CITED}),
        ("ott", {ANNS, BOBS, CITED}),
    ],
)
def test_lists_counts_and_jobs_leave_out_the_rest(place: House, who: str, known: set[int]) -> None:
    caller = place.caller(who, role="operator")
    listed = caller.get("/jobs").json()["jobs"]
    assert {job["job_id"] for job in listed} == known
    assert sum(caller.get("/stats").json()["jobs"].values()) == len(known)
    assert f'tgpu_jobs{{status="pending"}} {len(known)}.0' in caller.get("/metrics").text
    statuses = {job_id: caller.get(f"/jobs/{job_id}").status_code for job_id in (ANNS, BOBS, CITED)}
    assert statuses == {job_id: 200 if job_id in known else 404 for job_id in statuses}
    for path in ("why", "logs"):
        for job_id in {ANNS, BOBS, CITED} - known:
            assert caller.get(f"/jobs/{job_id}/{path}").status_code == 404
    cancelled = caller.post("/jobs/cancel", json={"job_ids": [ANNS, BOBS, CITED]})
    if who == "vic":  # who may only look
        assert cancelled.status_code == 403
    else:
        assert set(cancelled.json()["not_found"]) == {ANNS, BOBS, CITED} - known


def test_alerts_about_a_tenant_are_for_those_who_see_it(place: House) -> None:
    place.server.live.wrong = [
        Alert("budget-spent:lab", "tenant lab has spent …", 0, ("lab",)),
        Alert("budget-near:org", "tenant org has spent …", 0, ("org",)),
        Alert("ledger-differs", "tenant lab: …, tenant org: …", 0, ("lab", "org")),
        Alert("nodes-offline", "not heard any more: ws9", 0),
    ]
    for alert in place.server.live.wrong:
        place.server.metrics.note_alert(alert.name, on=True)
    place.server.metrics.note_alert("budget-near:lab", on=False)

    def told(who: str) -> tuple[set[str], set[str]]:
        caller = place.caller(who)
        names = {alert["name"] for alert in caller.get("/stats").json()["alerts"]}
        return names, set(re.findall(r'^tgpu_alert{name="(.*)"}', caller.get("/metrics").text, re.MULTILINE))

    every = {alert.name for alert in place.server.live.wrong}
    of_lab = {"budget-spent:lab", "nodes-offline"}
    assert told("ann") == (of_lab, {*of_lab, "budget-near:lab", "ledger-differs"})
    assert told("vic") == told("ann")
    of_org = {"budget-near:org", "nodes-offline"}
    assert told("bob") == (of_org, {*of_org, "ledger-differs"})
    assert told("ott") == (every, {*every, "budget-near:lab"}), "and again all of them"


def test_events_leave_them_out_too(place: House) -> None:
    def job_ids(who: str) -> set[int]:
        found = set()
        with place.caller(who).stream("GET", "/events?after=0") as answer:
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    found.add(json.loads(line.removeprefix("data: "))["job_id"])
                if line.startswith(": heartbeat") or len(found) == wanted[who]:
                    return found
        return found

    wanted = {"ann": 2, "bob": 2, "ott": 3}
    assert {who: job_ids(who) for who in wanted} == {
        "ann": {ANNS, CITED},
        "bob": {BOBS, CITED},
        "ott": {ANNS, BOBS, CITED},
    }


def test_who_has_no_role_learns_nothing(place: House) -> None:
    eve = place.caller("eve")
    for path in ("/jobs", "/stats", "/nodes", "/queues", "/events", "/metrics", f"/jobs/{ANNS}", "/jobs/99"):
        answer = eve.get(path)
        assert answer.status_code == 403
        assert "eve has no role" in answer.json()["detail"]


def test_nodes_queues_and_reasons_name_nobody_unknown(place: House) -> None:
    live = place.server.live
    (view,) = place.server.run(live.nodes())
    devices = (DeviceView(0, 500, ((ANNS, "ann"), (BOBS, "bob"))), DeviceView(1, 0))

    async def nodes() -> list[object]:
        return [type(view)(view.node, view.allocated, devices, view.running, None)]

    behind = (Reason("claim", "job 2 of bob is being stopped for it", {"job_ids": [BOBS]}),)

    async def queues() -> list[QueueView]:
        return [
            QueueView("lab/ann", PriorityClass.DEFAULT, 1, ANNS, 0.1, 0.1, behind),
            QueueView("org", PriorityClass.DEFAULT, 1, BOBS, 0.1, 0.1),
        ]

    async def why(job_id: int) -> Why:
        holders = tuple(Holder(each, "x", "x", 1000, (0,), "ws1", 1.0, None) for each in (ANNS, BOBS))
        return Why(job_id, True, behind[0].text, behind, holders)

    live.nodes, live.queues, live.why = nodes, queues, why  # type: ignore[method-assign]  # what a leader would say
    ann, ott = place.caller("ann"), place.caller("ott")
    assert _holders(ann.get("/nodes/ws1")) == [ANNS]
    assert _holders(ott.get("/nodes/ws1")) == [ANNS, BOBS]
    stranger = place.caller(place.person("eva", Role.VIEWER, "org"), tenant_id="org")
    assert [device["taken"] for device in ann.get("/nodes/ws1").json()["devices"][:2]] == [True, False]
    assert _holders(stranger.get("/nodes/ws1")) == [BOBS]
    told = ann.get(f"/jobs/{ANNS}/why")
    assert [holder["job_id"] for holder in told.json()["holders"]] == [ANNS]
    assert "bob" not in told.text
    assert "job 2 of bob" in ott.get(f"/jobs/{ANNS}/why").text
    assert [queue["tenant_id"] for queue in ann.get("/queues").json()["queues"]] == ["lab/ann"]
    assert "bob" not in ann.get("/queues").text
    assert "bob" in ott.get("/queues").text


def test_who_has_the_reservation_is_told_to_those_who_may_know_of_it(place: House) -> None:
    reason = Reason("reserved", f"the reservation of its class is job {BOBS}'s", {"job_id": BOBS})
    estimate = "not before 12:00:00: another job has the reservation of its class"

    async def why(job_id: int) -> Why:
        return Why(job_id, True, f"waits: {reason.text}", (reason,), estimate=estimate)

    place.server.live.why = why  # type: ignore[method-assign]  # what a leader would say
    told = place.caller("ann").get(f"/jobs/{ANNS}/why")
    assert (f"job {BOBS}" in told.text, told.json()["reasons"][0]["data"]) == (False, {})
    assert told.json()["estimate"] == estimate
    assert f"job {BOBS}'s" in place.caller("ott").get(f"/jobs/{ANNS}/why").json()["summary"]


def test_needs_tell_nobody_of_jobs_that_they_may_not_know_of(place: House) -> None:
    ann, bob, ott = place.caller("ann"), place.caller("bob"), place.caller("ott")
    job = {"command": "x", "cwd": "/", "tenant_id": "lab/ann"}
    for hidden in (BOBS, 99):
        refused = ann.post("/jobs", json={**job, "after": [f"afterany:{hidden}"]})
        assert (refused.status_code, f"there is no job {hidden} to wait for" in refused.text) == (422, True)
    place.person("bob", Role.USER, "lab/ann")
    last = bob.post("/jobs", json={**job, "name": "last", "after": [f"{BOBS}", f"{CITED}"]}).json()["job_id"]
    drawn = {who: who.get(f"/graph?ids={last}").json() for who in (ann, bob, ott)}
    assert [[each["job_id"] for each in graph["jobs"]] for graph in drawn.values()] == [
        [CITED, last],
        [BOBS, CITED, last],
        [BOBS, CITED, last],
    ]
    assert [each["on_job_id"] for each in drawn[ann]["needs"]] == [CITED]

    async def why(job_id: int) -> Why:
        needs = Reason("needs", f"needs job {BOBS} to complete first", {"job_ids": [BOBS]})
        return Why(job_id, True, f"waits: {needs.text}", (needs,))

    place.server.live.why = why  # type: ignore[method-assign]  # what a leader would say
    assert ann.get(f"/jobs/{last}/why").json()["summary"] == "waits: needs other jobs to be over first"
    assert f"job {BOBS}" in bob.get(f"/jobs/{last}/why").json()["summary"]


def _holders(answer: httpx.Response) -> list[int]:
    return [holder["job_id"] for holder in answer.json()["devices"][0]["holders"]]


def test_tenants_are_shown_to_those_who_belong_to_them_or_below(place: House) -> None:
    def seen(who: str) -> set[str]:
        return {tenant["tenant_id"] for tenant in place.caller(who).get("/tenants").json()["tenants"]}

    assert seen("ann") == {"lab", "lab/ann"}, "the limits above are hers, too"
    assert seen("bob") == {"org"}
    assert seen("vic") == {"lab", "lab/ann"}
    assert seen("ott") == {"default", "lab", "lab/ann", "org"}
    assert place.caller("bob").get("/tenants").json()["complete"] is False
    with place.server.unix() as root:
        assert root.get("/tenants").json()["complete"] is True
    assert place.caller("bob").get("/tenants/lab").status_code == 404
    assert place.caller("bob").get("/tenants/lab/quota").status_code == 404
    assert place.caller("bob").post("/jobs", json={"command": "x", "tenant_id": "lab"}).status_code == 403
    assert place.caller("bob").post("/jobs", json={"command": "x", "tenant_id": "none"}).status_code == 403


def test_tokens_do_not_tell_which_hidden_tenants_there_are(place: House) -> None:
    bob = place.caller("bob")
    hidden, missing = (bob.post("/tokens", json={"tenant_id": name}) for name in ("lab", "nil"))
    assert hidden.status_code == missing.status_code == 422
    assert hidden.json()["detail"].replace("lab", "nil") == missing.json()["detail"]
    assert bob.post("/tokens", json={"tenant_id": "org"}).status_code == 201


@pytest.fixture
def outlined() -> Iterator[House]:
    """Others' jobs are shown in outline, without their exit codes."""
    with house(tenant_rules=("user:bob=org",)) as found:
        found.tenants("lab", "org")
        for name in ("ann", "eve"):
            found.person(name, Role.USER, "lab")
        found.person("bob")
        for user, tenant_id in (("ann", "lab"), ("ann", "lab"), ("bob", "org"), ("bob", "default")):
            job_id = submit(found.server, user, "x", tenant_id=tenant_id)
            assign(found.server, job_id)
            start(found.server, job_id)
            end(found.server, job_id, Happening.FAILED, Cause.EXITED, exit_code=7)
        yield found


def test_neither_lists_nor_cursors_tell_the_exit_codes_of_others(outlined: House) -> None:
    def found(caller: httpx.Client, **query: int | str) -> list[int]:
        jobs, cursor = [], None
        while True:
            asked = {"exit_code": 7, "limit": 1, **query, **({} if cursor is None else {"cursor": cursor})}
            page = caller.get("/jobs", params=asked).json()
            jobs += [job["job_id"] for job in page["jobs"]]
            cursor = page["next_cursor"]
            assert cursor is None or cursor in jobs, "it goes on after a job that the caller may not know"
            if cursor is None:
                return jobs

    assert found(outlined.caller("bob")) == [4, 3]
    assert found(outlined.caller("eve")) == [2, 1], "a member of the same tenant"
    assert found(outlined.caller("bob", tenant_id="org")) == [3]
    assert found(outlined.caller("bob"), user="ann") == []
    with outlined.server.unix() as root:
        assert found(root) == [4, 3, 2, 1]
        assert found(root, order="oldest") == [1, 2, 3, 4]


def test_a_token_that_is_good_in_one_tenant_sees_that_one(place: House) -> None:
    caller = place.caller("bob", tenant_id="org")
    assert {job["job_id"] for job in caller.get("/jobs").json()["jobs"]} == {BOBS}
    assert caller.get(f"/jobs/{CITED}").status_code == 404


def test_so_it_does_where_others_are_seen() -> None:
    with house(tenant_rules=("user:bob=org",)) as place:
        place.tenants("lab", "lab/ann", "org", "org/bob")
        place.person("ann", Role.USER, "lab")
        place.person("bob", Role.OPERATOR, "lab")
        jobs = [
            submit(place.server, user, "x", tenant_id=tenant_id)
            for user, tenant_id in (("ann", "lab/ann"), ("bob", "org"), ("bob", "lab"), ("ann", "org/bob"))
        ]
        every, narrowed = place.caller("bob"), place.caller("bob", tenant_id="lab")
        assert _listed(every) == set(jobs)
        assert _listed(narrowed) == {jobs[0], jobs[2]}
        assert sum(narrowed.get("/stats").json()["jobs"].values()) == 2
        for other in (jobs[1], jobs[3]):
            told = narrowed.get(f"/jobs/{other}")
            assert (told.status_code, "in lab, where this token is good" in told.json()["detail"]) == (
                404,
                True,
            )
        tenants = [tenant["tenant_id"] for tenant in narrowed.get("/tenants").json()["tenants"]]
        assert tenants == ["lab", "lab/ann"]
        assert narrowed.get("/tenants/org").status_code == 404
        below = place.caller("bob", tenant_id="lab/ann")
        assert [tenant["tenant_id"] for tenant in below.get("/tenants").json()["tenants"]] == ["lab/ann"]
        assert narrowed.get("/queues").json()["queues"] == []
        assert len(every.get("/queues").json()["queues"]) == 1
        assert narrowed.get("/report").json()["covers"] == "your own jobs in lab and those of lab"


def _listed(client: httpx.Client) -> set[int]:
    return {job["job_id"] for job in client.get("/jobs").json()["jobs"]}
