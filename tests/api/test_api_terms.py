"""Where a job goes, what its tenant's terms make of it, and what a refusal says."""

import grp
import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api import stories
from tests.api.people import House, house
from tgpu.config.tiers import TierSettings
from tgpu.domain.access import Role
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.domain.priority import PriorityClass

JOB = {"command": "x", "cwd": "/"}
GUEST = TierSettings(
    name="guest", classes=(PriorityClass.LOW, PriorityClass.BEST_EFFORT), max_time_limit_s=60
)


@pytest.fixture
def place() -> Iterator[House]:
    with house(
        tiers=(GUEST,), tenant_rules=("user:ann=lab/ann", "user:eve=people/{user}", "*=default")
    ) as found:
        found.tenants("lab", "lab/ann", "lab/bob")
        found.person("ann")
        found.person("eve")
        yield found


@pytest.fixture
def root(place: House) -> Iterator[httpx.Client]:
    with place.server.unix() as opened:
        yield opened


def refusal(client: httpx.Client, job: dict[str, Any], status: int) -> Any:
    answer = client.post("/jobs", json={**JOB, **job})
    assert answer.status_code == status, answer.text
    return answer.json()


def test_a_job_that_names_no_tenant_goes_home(place: House, root: httpx.Client) -> None:
    ann = place.caller("ann")
    assert ann.post("/jobs", json=JOB).json()["tenant_id"] == "lab/ann"
    assert root.post("/jobs", json=JOB).json()["tenant_id"] == "default"
    assert root.post("/jobs", json={**JOB, "user_id": "ann"}).json()["tenant_id"] == "lab/ann"
    assert ann.get("/whoami").json()["home_tenant_id"] == "lab/ann"


def test_a_home_that_does_not_exist_says_who_makes_it(place: House) -> None:
    told = refusal(place.caller("eve"), {}, 422)
    assert told["field"] == "tenant_id"
    assert "your home by the setting tenant_rules is people/eve, which does not exist" in told["detail"]
    assert "tgpu tenants add people/eve" in told["detail"]


def test_a_home_that_was_moved_says_where_it_went(place: House, root: httpx.Client) -> None:
    root.post("/tenants", json={"tenant_id": "org"})
    assert root.post("/tenants/lab/move", json={"to": "org/lab"}).status_code == 200
    home = "your home by the setting tenant_rules is lab/ann, which was moved and is org/lab/ann now"
    ann = place.caller("ann")
    told = refusal(ann, {}, 422)["detail"]
    assert told.endswith(f"{home}: name another tenant, or have an administrator correct the rule")
    root.put("/tenants/org/lab/members/ann", json={"role": "user"})
    told = refusal(ann, {}, 422)["detail"]
    assert told.endswith(
        f"{home}: name it (--tenant org/lab/ann), and have an administrator correct the rule"
    )
    assert ann.post("/jobs", json={**JOB, "tenant_id": "org/lab/ann"}).status_code == 201


def test_a_name_with_ended_jobs_is_taken_over_by_administrators_only(
    place: House, root: httpx.Client
) -> None:
    place.person("olga", Role.OPERATOR, "lab")
    job_id = place.caller("ann").post("/jobs", json=JOB).json()["job_id"]
    stories.assign(place.server, job_id)
    stories.start(place.server, job_id)
    stories.end(place.server, job_id, Happening.SUCCEEDED, Cause.EXITED, exit_code=0)
    assert root.delete("/tenants/lab/ann").status_code == 200
    olga = place.caller("olga")
    told = olga.post("/tenants", json={"tenant_id": "lab/ann"})
    assert (told.status_code, told.json()["type"]) == (409, "urn:tgpu:problem:name-kept")
    assert told.json()["detail"].startswith("lab/ann was removed on 20")
    assert told.json()["detail"].endswith("or take them over, as an administrator (`?take_over=true`)")
    root.post("/tenants", json={"tenant_id": "lab/new"})
    told = olga.post("/tenants/lab/new/move", json={"to": "lab/ann"})
    assert (told.status_code, told.json()["type"]) == (409, "urn:tgpu:problem:name-kept")
    assert told.json()["detail"].endswith("choose another name, since only a new tenant takes them over")
    assert olga.post("/tenants?take_over=true", json={"tenant_id": "lab/ann"}).status_code == 403
    assert root.post("/tenants?take_over=true", json={"tenant_id": "lab/ann"}).status_code == 201


def test_rules_that_a_move_or_a_removal_leaves_behind_are_named(place: House, root: httpx.Client) -> None:
    alerts = root.get("/stats").json()["alerts"]
    assert [(each["name"], "user:eve=people/{user}" in each["text"]) for each in alerts] == [
        ("tenant-rule", True)
    ]
    assert place.caller("eve").get("/whoami").json()["home_exists"] is False
    assert root.post("/tenants", json={"tenant_id": "people"}).status_code == 201
    assert root.get("/stats").json()["alerts"] == []
    assert root.post("/tenants/lab/bob/move", json={"to": "lab/bo"}).json()["notes"] == []
    assert place.caller("ann").get("/whoami").json()["home_exists"] is True
    rule = "the rule user:ann=lab/ann of the setting tenant_rules"
    moved = root.post("/tenants/lab/move", json={"to": "org"}).json()
    assert (moved["tenant_id"], moved["notes"]) == (
        "org",
        [f"{rule} points to lab, which is no more: change it to user:ann=org/ann"],
    )
    assert place.caller("ann").get("/whoami").json()["home_exists"] is False
    removed = root.delete("/tenants/people")
    assert (removed.status_code, len(removed.json()["notes"])) == (200, 1)
    assert root.delete("/tenants/org/bo").status_code == 204


def test_a_group_s_rule_gives_a_home() -> None:
    group = grp.getgrgid(os.getgid()).gr_name
    with house(tenant_rules=(f"group:{group}=default",)) as place, place.server.unix() as root:
        assert root.get("/whoami").json()["home_tenant_id"] == "default"
    with house(tenant_rules=("group:no-such-group=default",)) as place, place.server.unix() as root:
        assert root.get("/whoami").json()["home_tenant_id"] is None
        assert "tenant_id is missing" in refusal(root, {}, 422)["detail"]
        assert root.post("/jobs", json={**JOB, "tenant_id": "default"}).status_code == 201


def test_nobody_submits_to_another_s_tenant(place: House) -> None:
    ann = place.caller("ann")
    for tenant_id in ("lab", "lab/bob", "default"):
        told = refusal(ann, {"tenant_id": tenant_id}, 403)
        assert f"ann may not submit to {tenant_id}" in told["detail"]
    told = ann.post("/jobs", json={"jobs": [JOB, {**JOB, "tenant_id": "lab/bob"}]})
    assert told.status_code == 403
    assert told.json()["detail"].startswith("jobs[1].tenant_id: ann may not submit to lab/bob")
    assert "there is no tenant 'none'" in refusal(ann, {"tenant_id": "none"}, 422)["detail"]


def test_the_tenant_s_terms_hold_for_its_jobs(place: House, root: httpx.Client) -> None:
    changed = root.patch(
        "/tenants/lab",
        json={
            "default_class": "low",
            "classes": ["default", "low"],
            "default_time_limit_s": 600,
            "max_time_limit_s": 3600,
        },
    )
    assert changed.json()["effective"]["classes"] == ["default", "low"]
    ann = place.caller("ann")
    job = ann.post("/jobs", json=JOB).json()
    assert (job["priority_class"], job["time_limit_s"]) == ("low", 600)
    job = ann.post("/jobs", json={**JOB, "priority_class": "default", "time_limit_s": 3600}).json()
    assert (job["priority_class"], job["time_limit_s"]) == ("default", 3600)
    told = refusal(ann, {"priority_class": "high"}, 422)
    assert told["detail"].startswith("priority_class: tenant lab/ann may use default, low; got high. ")
    told = refusal(ann, {"time_limit_s": 3601}, 422)
    assert told["detail"] == "time_limit_s must be at most 1h in tenant lab/ann; got 1h1s"
    root.patch("/tenants/lab", json={"default_time_limit_s": None})
    told = refusal(ann, {}, 422)
    assert told["detail"] == "time_limit_s must be at most 1h in tenant lab/ann; this has none"


def test_a_tier_is_a_set_of_terms(place: House, root: httpx.Client) -> None:
    assert root.patch("/tenants/lab/ann", json={"tier": "guest"}).json()["effective"]["classes"] == [
        "low",
        "best-effort",
    ]
    job = place.caller("ann").post("/jobs", json={**JOB, "time_limit_s": 60}).json()
    assert job["priority_class"] == "low"
    answer = root.patch("/tenants/lab/ann", json={"tier": "gold"})
    assert answer.status_code == 422
    assert "there is no tier 'gold' in the server's settings; there is: guest" in answer.json()["detail"]


def test_an_archived_tenant_takes_no_jobs_nor_does_anybody_below_it(place: House, root: httpx.Client) -> None:
    root.patch("/tenants/lab", json={"archived": True})
    told = refusal(place.caller("ann"), {}, 409)
    assert told["type"] == "urn:tgpu:problem:tenant-archived"
    assert "'lab' is archived" in told["detail"]
    root.patch("/tenants/lab", json={"archived": False})
    assert place.caller("ann").post("/jobs", json=JOB).status_code == 201


def test_a_limit_on_gpu_hours_asks_for_a_time_limit(place: House, root: httpx.Client) -> None:
    root.patch("/tenants/lab/quota", json={"gpu_hours_limit": 10})
    ann = place.caller("ann")
    told = refusal(ann, {"gpu_request": 1}, 422)
    assert told["field"] == "time_limit_s"
    assert "tenant lab has a limit on GPU-hours" in told["detail"]
    assert refusal(ann, {"gpu_memory_mb": 1000}, 422)["field"] == "time_limit_s"
    assert ann.post("/jobs", json={**JOB, "gpu_request": 1, "time_limit_s": 60}).status_code == 201
    assert ann.post("/jobs", json=JOB).status_code == 201


@pytest.mark.parametrize(
    ("limits", "job", "resource", "numbers", "sentence"),
    [
        (
            {"gpu_limit": 1.5},
            {"gpu_request": 1},
            "gpu",
            (1.5, 1, 1, 0.5),
            "tenant lab may have 1.5 GPUs at once and 1 is taken; this asks for 1 more. Up to 0.5 would fit",
        ),
        (
            {"mem_limit_mb": 2048},
            {"mem_request_mb": 2048},
            "mem_mb",
            (2048, 2048, 2048, 0),
            "tenant lab may have 2 GiB of memory at once and 2 GiB is taken; this asks for 2 GiB more.",
        ),
        (
            {"gpu_type_limits": {"A100": 1}},
            {"gpu_request": 1, "gpu_type": "A100"},
            "gpu:a100",
            (1, 1, 1, 0),
            "tenant lab may have 1 a100 GPU at once and 1 is taken",
        ),
        (
            {"generic_limits": {"licence": 3}},
            {"generic": {"licence": 2}},
            "generic:licence",
            (3, 2, 2, 1),
            "tenant lab may have 3 of licence at once and 2 are taken; this asks for 2 more. Up to 1 would",
        ),
        (
            {"waiting_jobs_limit": 1},
            {},
            "waiting_jobs",
            (1, 1, 1, 0),
            "tenant lab may have 1 job waiting at once and 1 is taken",
        ),
    ],
)
def test_a_quota_refuses_with_the_numbers_and_what_would_fit(  # noqa: PLR0917  one row of the table
    place: House,
    root: httpx.Client,
    limits: dict[str, Any],
    job: dict[str, Any],
    resource: str,
    numbers: tuple[float, ...],
    sentence: str,
) -> None:
    assert root.patch("/tenants/lab/quota?force=true", json=limits).status_code == 200
    ann = place.caller("ann")
    assert ann.post("/jobs", json={**JOB, **job}).status_code == 201
    told = refusal(ann, job, 409)
    assert (told["type"], told["tenant_id"], told["resource"]) == (
        "urn:tgpu:problem:quota-exceeded",
        "lab",
        resource,
    )
    assert (told["limit"], told["used"], told["asked"], told["would_fit"]) == numbers
    assert told["detail"].startswith(sentence)
    assert "wait until some of its jobs end, or ask an administrator for a higher quota" in told["detail"]


@pytest.mark.parametrize(
    ("may_burst", "job", "ending"),
    [
        (True, {"gpu_request": 2}, ". It may not run on the burst, which is for jobs of class low"),
        (
            True,
            {"gpu_request": 3, "priority_class": "low"},
            ". It is too large for the burst, too: alone it is more than half of that limit",
        ),
        (
            True,
            {"gpu_request": 1, "cpu_request": 3, "priority_class": "low"},
            "too large for the burst, too: alone it is more than half of what tenant lab may have of cpu",
        ),
        (False, {"gpu_request": 3, "priority_class": "low"}, "for a higher quota"),
        (False, {"gpu_request": 3}, "for a higher quota"),
        (True, {"gpu_request": 5, "priority_class": "low"}, "for a higher quota"),
    ],
)
def test_a_refusal_says_why_the_burst_is_no_way_either(
    place: House, root: httpx.Client, *, may_burst: bool, job: dict[str, Any], ending: str
) -> None:
    root.patch("/tenants/lab", json={"may_burst": may_burst})
    root.patch("/tenants/lab/quota", json={"gpu_limit": 4, "cpu_limit": 5})
    ann = place.caller("ann")
    assert ann.post("/jobs", json={**JOB, "gpu_request": 4, "cpu_request": 1}).status_code == 201
    assert refusal(ann, job, 409)["detail"].endswith(ending)


def test_more_than_the_whole_limit_is_told_as_that(place: House, root: httpx.Client) -> None:
    root.patch("/tenants/lab/ann", json={"over_quota": "queue"})
    root.patch("/tenants/lab/ann/quota", json={"gpu_limit": 2})
    told = refusal(place.caller("ann"), {"gpu_request": 3}, 409)
    assert told["detail"] == (
        "tenant lab/ann may have 2 GPUs at once; this asks for 3, which is more than the whole limit: ask "
        "for less, or ask an operator of lab or an administrator for a higher quota"
    )


@pytest.mark.parametrize("mode", ["reject", "queue"])
def test_more_gpu_hours_than_a_period_has_are_refused_with_a_time_that_fits(
    place: House, root: httpx.Client, mode: str
) -> None:
    root.patch("/tenants/lab", json={"over_quota": mode})
    root.patch("/tenants/lab/quota", json={"gpu_hours_limit": 10, "gpu_hours_period": "week"})
    ann = place.caller("ann")
    job = {"gpu_request": 2, "grace_s": 60, "time_limit_s": 5 * 3600}
    told = refusal(ann, job, 409)
    assert (told["type"], told["resource"]) == ("urn:tgpu:problem:quota-exceeded", "gpu_hours")
    assert (told["limit"], told["asked"], told["longest_time_limit_s"]) == (10, 10.033, 4 * 3600 + 59 * 60)
    assert told["detail"] == (
        "tenant lab may use 10 GPU-hours a week; this may take 10.033 until its time limit and grace are over"
        ", which is more than the whole limit: ask for at most --time 4h59m, or fewer GPUs, or ask an "
        "administrator for a higher quota"
    )
    fits = {**JOB, **job, "time_limit_s": told["longest_time_limit_s"]}
    assert ann.post("/jobs", json=fits).status_code == 201


def test_a_job_is_judged_without_the_models_that_its_tenants_limit(place: House, root: httpx.Client) -> None:
    root.patch("/tenants/lab/quota?force=true", json={"gpu_type_limits": {"A100": 4}})
    ann = place.caller("ann")
    told = refusal(ann, {"gpu_request": 1, "tasks": 3}, 422)["detail"]
    assert "only by name; lab/ann would need 3" in told, "of her tenant, and of all that she asks for"
    assert ann.post("/jobs", json={**JOB, "gpu_request": 1, "gpu_type": "A100"}).status_code == 201
    assert root.post("/jobs", json={**JOB, "gpu_request": 1}).status_code == 201


def test_what_is_queued_beyond_the_quota_is_held_and_says_so(place: House, root: httpx.Client) -> None:
    root.patch("/tenants/lab", json={"over_quota": "queue"})
    root.patch("/tenants/lab/quota", json={"gpu_limit": 1})
    ann = place.caller("ann")
    jobs = [ann.post("/jobs", json={**JOB, "gpu_request": 1}).json() for _ in range(3)]
    assert [job["held"] for job in jobs] == [True, True, True]
    shown = ann.get(f"/jobs/{jobs[2]['job_id']}").json()
    assert (shown["held"], shown["status"]) == (True, "pending")
    assert "it is held until the quota of lab/ann admits it" in shown["reason"]
    assert root.get("/tenants/lab/quota").json()["gpu_used"] == 0


def test_fields_of_a_tenant_come_back_as_they_were_set(root: httpx.Client) -> None:
    terms = {
        "weight": 7,
        "tier": "guest",
        "default_class": "low",
        "classes": ["default", "low"],
        "default_time_limit_s": 60,
        "max_time_limit_s": 3600,
        "over_quota": "queue",
        "may_burst": False,
        "archived": True,
        "budget_gpu_hours": 12.5,
        "budget_period": "week",
    }
    limits = {
        "cpu_limit": 8.5,
        "mem_limit_mb": 1024,
        "disk_limit_mb": 5,
        "gpu_limit": 2,
        "gpu_type_limits": {"a100": 1},
        "generic_limits": {"licence": 3},
        "running_jobs_limit": 4,
        "waiting_jobs_limit": 5,
        "gpu_hours_limit": 100.25,
        "gpu_hours_period": "day",
    }
    made = root.post("/tenants?force=true", json={"tenant_id": "lab/new", **terms, **limits})
    assert made.status_code == 201, made.text
    shown = root.get("/tenants/lab/new").json()
    assert shown == made.json()
    assert {key: shown[key] for key in terms} == terms
    assert {key: shown["quota"][key] for key in limits} == limits
    nothing = {key: None for key in terms if key not in ("weight", "archived", "budget_period")}
    cleared = root.patch("/tenants/lab/new", json={**nothing, "archived": False}).json()
    assert {key: cleared[key] for key in nothing} == nothing
    assert cleared["effective"] == {
        "default_class": "default",
        "classes": ["default", "low", "best-effort"],
        "default_time_limit_s": None,
        "max_time_limit_s": None,
        "over_quota": "reject",
        "may_burst": True,
        "archived": False,
    }
    free = {
        key: None for key in limits if key not in ("gpu_type_limits", "generic_limits", "gpu_hours_period")
    }
    named = {"gpu_type_limits": {"A100": None}, "generic_limits": {"licence": None}}
    quota = root.patch("/tenants/lab/new/quota", json={**free, **named}).json()
    assert {key: quota[key] for key in free} == free
    assert (quota["gpu_type_limits"], quota["generic_limits"]) == ({}, {})


def test_members_of_a_tenant_see_its_jobs_and_others_the_outline(place: House) -> None:
    ann = place.caller("ann")
    job_id = ann.post("/jobs", json={**JOB, "env": {"API_TOKEN": "s3cret", "N": "1"}}).json()["job_id"]
    place.person("vic", Role.VIEWER, "lab")
    place.person("flo", Role.VIEWER, "lab/bob")
    seen = place.caller("vic").get(f"/jobs/{job_id}").json()
    assert seen["env"] == {"API_TOKEN": "***", "N": "1"}
    assert place.caller("flo").get(f"/jobs/{job_id}").json()["env"] is None
    assert place.caller("vic").get(f"/jobs/{job_id}/logs").status_code == 200
    assert place.caller("flo").get(f"/jobs/{job_id}/logs").status_code == 403


def test_it_is_told_who_says_what_is_effective(root: httpx.Client) -> None:
    root.patch("/tenants/lab", json={"over_quota": "queue", "may_burst": False, "default_time_limit_s": 600})
    own = {"tier": "guest", "default_class": "best-effort", "may_burst": True}
    shown = root.patch("/tenants/lab/ann", json=own).json()
    assert shown["effective_from"] == {
        "default_class": "own",
        "classes": "tier guest",
        "default_time_limit_s": "tier guest",  # ten minutes are more than the guests' longest
        "max_time_limit_s": "tier guest",
        "over_quota": "parent lab",
        "may_burst": "own",
        "archived": "default",
    }
    root.patch("/tenants/lab", json={"archived": True, "classes": ["best-effort"]})
    shown = root.get("/tenants/lab/ann").json()
    assert (shown["effective"]["classes"], shown["effective_from"]["archived"]) == (
        ["best-effort"],
        "parent lab",
    )


def test_a_budget_shows_what_is_spent_of_it(place: House, root: httpx.Client) -> None:
    root.patch("/tenants/lab", json={"budget_gpu_hours": 2, "budget_period": "day"})
    assert root.get("/tenants/lab/ann").json()["budget_used_gpu_hours"] is None
    ann = place.caller("ann")
    job = ann.post("/jobs", json={**JOB, "gpu_request": 2, "time_limit_s": 3600}).json()
    assert root.get("/tenants/lab").json()["budget_used_gpu_hours"] == 0
    stories.assign(place.server, job["job_id"])
    stories.start(place.server, job["job_id"])
    place.server.now_ms += 900_000
    (lab,) = [each for each in root.get("/tenants").json()["tenants"] if each["tenant_id"] == "lab"]
    assert lab["budget_used_gpu_hours"] == 0.5


def test_users_raise_priorities_only_to_the_setting_and_operators_beyond(place: House) -> None:
    place.person("ott", Role.OPERATOR, "lab")
    ann, ott = place.caller("ann"), place.caller("ott")
    refused = ann.post("/jobs", json={**JOB, "priority": 1001})
    assert refused.status_code == 422
    assert refused.json()["detail"] == (
        "priority: users may give at most 1000 (the setting max_priority); got 1001. Ask an operator of "
        "lab/ann for more."
    )
    mine = ann.post("/jobs", json={**JOB, "priority": 1000}).json()
    assert ann.post("/jobs", json={**JOB, "priority": -1_000_000}).status_code == 201
    path = f"/jobs/{mine['job_id']}"
    assert ann.patch(path, json={"priority": 1001}).status_code == 422
    assert ott.patch(path, json={"priority": 5000}).status_code == 200
    assert ann.patch(path, json={"name": "other"}).status_code == 200, "what an operator gave it, it keeps"
    assert ann.patch(path, json={"priority": 5001}).status_code == 422
    assert ann.post(f"{path}/rerun", json={}).status_code == 422, "a new job has no more than others"
    assert ann.post(f"{path}/rerun", json={"priority": 7}).status_code == 201
    assert ott.post("/jobs", json={**JOB, "tenant_id": "lab", "priority": 1_000_000}).status_code == 201
