"""Permission to use priority classes: without one, ordinary users have `default` and the classes below it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.api import stories
from tests.api.people import House, house
from tgpu.config.tiers import TierSettings
from tgpu.domain.access import Role
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.domain.priority import PriorityClass
from tgpu.domain.views import Advice, Why

JOB = {"command": "x", "cwd": "/"}
ALL = ["real-time", "high", "default", "low", "best-effort"]
USUAL = ["default", "low", "best-effort"]
GOLD = TierSettings(name="gold", classes=(PriorityClass.HIGH, PriorityClass.DEFAULT))


@pytest.fixture
def place() -> Iterator[House]:
    with house(tiers=(GOLD,), tenant_rules=("*=lab/{user}",)) as found:
        found.tenants("lab", "lab/ann", "lab/ott", "org")
        found.person("ann")
        found.person("ott", Role.OPERATOR, "lab")
        yield found


@pytest.fixture
def root(place: House) -> Iterator[httpx.Client]:
    with place.server.unix() as opened:
        yield opened


def submit(client: httpx.Client, name: str | None = None, **more: Any) -> httpx.Response:
    return client.post("/jobs", json={**JOB, **({"priority_class": name} if name else {}), **more})


def refused(answer: httpx.Response) -> str:
    assert answer.status_code == 422, answer.text
    assert answer.json()["field"] == "priority_class"
    return str(answer.json()["detail"])


def accepted_by(client: httpx.Client, **more: Any) -> list[str]:
    return [name for name in ALL if submit(client, name, **more).status_code == 201]


def test_users_have_default_and_below_operators_and_administrators_have_all(
    place: House, root: httpx.Client
) -> None:
    assert accepted_by(place.caller("ann")) == USUAL
    assert accepted_by(place.caller("ott"), tenant_id="lab/ann") == ALL
    assert accepted_by(root, tenant_id="org") == ALL
    assert submit(root, "real-time", user_id="ann").status_code == 201
    place.person("ott", Role.USER, "org")
    assert accepted_by(place.caller("ott"), tenant_id="org") == USUAL


def test_refusal_names_class_permitted_classes_command_and_setting(place: House, root: httpx.Client) -> None:
    ann = place.caller("ann")
    told = refused(submit(ann, "high"))
    command = "tgpu tenants set lab/ann --classes high,default,low,best-effort"
    assert told == (
        "priority_class: users of tenant lab/ann may use default, low, best-effort; got high. To allow high, "
        f"an operator of lab or an administrator runs `{command}`, or an administrator sets "
        'user_classes = ["high", "default", "low", "best-effort"] in the settings, for all tenants.'
    )
    named = command.rpartition(" ")[2].split(",")
    assert root.patch("/tenants/lab/ann", json={"classes": named}).status_code == 200
    assert accepted_by(ann) == named


def test_refusal_names_each_tenant_whose_list_lacks_the_class(place: House, root: httpx.Client) -> None:
    root.patch("/tenants/lab", json={"classes": ["default", "low"]})
    root.patch("/tenants/lab/ann", json={"classes": ["low"]})
    told = refused(submit(place.caller("ann"), "high"))
    assert told == (
        "priority_class: tenant lab/ann may use low; got high. To allow high, an administrator runs `tgpu "
        "tenants set lab --classes high,default,low` and `tgpu tenants set lab/ann --classes high,low`."
    )


def test_list_of_a_tenant_binds_operators_and_administrators_too(place: House, root: httpx.Client) -> None:
    root.patch("/tenants/lab", json={"classes": ["default", "low"]})
    assert accepted_by(place.caller("ott"), tenant_id="lab/ann") == ["default", "low"]
    assert accepted_by(root, tenant_id="lab/ann") == ["default", "low"]


@pytest.mark.parametrize(
    ("terms", "classes"),
    [
        ({"tier": "gold"}, ["high", "default"]),
        ({"default_class": "high"}, ["high", *USUAL]),
        ({"classes": ALL}, ALL),
    ],
)
def test_terms_of_a_tenant_allow_classes_there_and_below(
    place: House, root: httpx.Client, terms: dict[str, Any], classes: list[str]
) -> None:
    assert root.patch("/tenants/lab", json=terms).status_code == 200
    assert root.get("/tenants/lab/ann").json()["effective"]["classes"] == classes
    ann = place.caller("ann")
    assert accepted_by(ann) == classes
    assert submit(ann).json()["priority_class"] == terms.get("default_class", "default")


def test_setting_allows_classes_to_everybody() -> None:
    with house(user_classes=("high", "low")) as found:
        found.person("ann")
        ann = found.caller("ann")
        assert accepted_by(ann) == ["high", "low"]
        assert submit(ann).json()["priority_class"] == "low"


def test_edited_job_keeps_its_class_and_gets_no_higher_one(place: House) -> None:
    ann = place.caller("ann")
    path = f"/jobs/{submit(ann).json()['job_id']}"
    refused(ann.patch(path, json={"priority_class": "high"}))
    assert place.caller("ott").patch(path, json={"priority_class": "high"}).status_code == 200
    assert ann.patch(path, json={"name": "other"}).json()["priority_class"] == "high"
    assert ann.patch(path, json={"priority_class": "low"}).status_code == 200
    refused(ann.patch(path, json={"priority_class": "high"}))


def test_retry_and_rerun_are_judged_by_what_the_caller_may_use_now(place: House, root: httpx.Client) -> None:
    ann = place.caller("ann")
    job_id = submit(root, "high", user_id="ann").json()["job_id"]
    stories.assign(place.server, job_id)
    stories.start(place.server, job_id)
    assert ann.post(f"/jobs/{job_id}/retry").json()["restarted"] == [0], "it runs, and keeps its class"
    stories.end(place.server, job_id, Happening.FAILED, Cause.EXITED, exit_code=1)
    assert f"`tgpu rerun {job_id} --class default`" in refused(ann.post(f"/jobs/{job_id}/retry"))
    refused(ann.post(f"/jobs/{job_id}/rerun"))
    assert ann.post("/jobs/retry", json={"job_ids": [job_id]}).json()["retried"] == []
    offered = ann.get(f"/jobs/{job_id}?actions=true").json()["actions"]
    assert not {"retry", "rerun"} & set(offered)
    assert ann.post(f"/jobs/{job_id}/rerun", json={"priority_class": "default"}).status_code == 201
    assert place.caller("ott").post(f"/jobs/{job_id}/retry").status_code == 202


def test_arrays_gangs_bulk_and_dry_runs_ask_for_the_same_permission(place: House) -> None:
    ann = place.caller("ann")
    refused(submit(ann, "high", array="0-9"))
    refused(submit(ann, "high", tasks=2))
    bulk = ann.post("/jobs", json={"jobs": [JOB, {**JOB, "priority_class": "real-time"}]})
    assert bulk.status_code == 422
    assert bulk.json()["detail"].startswith("jobs[1].priority_class: users of tenant lab/ann may use")
    refused(ann.post("/jobs?dry_run=true", json={**JOB, "priority_class": "high"}))
    told = ann.post("/jobs?dry_run=report", json={**JOB, "priority_class": "high"}).json()
    assert "tgpu tenants set lab/ann --classes high" in str(told["refusal"])


def test_token_or_key_of_the_role_user_has_the_classes_of_users(place: House) -> None:
    narrow = place.caller("ott", role="user")
    assert accepted_by(narrow) == USUAL
    assert "ott may use it, but this token has only the role user" in refused(submit(narrow, "high"))
    assert accepted_by(place.caller("ott", highest_class=PriorityClass.HIGH)) == ALL[1:]
    job_id = submit(place.caller("ott"), "high").json()["job_id"]
    stories.assign(place.server, job_id)
    stories.start(place.server, job_id)
    inside = place.job(job_id)
    assert accepted_by(inside) == USUAL
    assert f"the key of job {job_id} has only the role user" in refused(submit(inside, "high"))


def test_forms_offer_the_classes_that_the_caller_may_use(place: House, root: httpx.Client) -> None:
    def offered(client: httpx.Client) -> list[str]:
        fields = client.get("/job-fields").json()["fields"]
        return next(list(field["choices"]) for field in fields if field["name"] == "priority_class")

    ann = place.caller("ann")
    assert (offered(ann), offered(root)) == (USUAL, ALL)
    assert offered(place.caller("ann", highest_class=PriorityClass.LOW)) == ["low", "best-effort"]
    root.patch("/tenants/lab/ann", json={"classes": ["high", "low"]})
    assert offered(ann) == ["high", "low"]


def test_no_advice_to_take_a_class_without_permission(
    place: House, root: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    advice = Advice("priority_class", PriorityClass.DEFAULT, PriorityClass.HIGH, "with --class high")

    async def why(job_id: int) -> Why:
        return Why(job_id, True, "waits", advice=advice)

    async def preview(jobs: Any) -> Any:
        return [replace(each, why=await why(0)) for each in await planned(jobs)]

    planned = place.server.live.preview
    monkeypatch.setattr(place.server.live, "why", why)
    monkeypatch.setattr(place.server.live, "preview", preview)
    ann = place.caller("ann")
    job_id = submit(ann).json()["job_id"]
    assert ann.get(f"/jobs/{job_id}/why").json()["advice"] is None
    assert root.get(f"/jobs/{job_id}/why").json()["advice"]["instead"] == "high"
    assert ann.post("/jobs?dry_run=true", json=JOB).json()["jobs"][0]["advice"] is None
    root.patch("/tenants/lab", json={"classes": ALL})
    assert ann.get(f"/jobs/{job_id}/why").json()["advice"]["instead"] == "high"
    assert ann.post("/jobs?dry_run=true", json=JOB).json()["jobs"][0]["advice"]["instead"] == "high"
