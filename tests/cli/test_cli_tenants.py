"""Commands about who shares the machines: tenants, quota, users."""

import json
import re
from typing import Any

import pytest
from fake_tgpu import FakeTgpu, Refusal, a_job

from tests.cli.cli_process import Tgpu
from tgpu.cli.commands.users import ROLES as ROLE_WORDS
from tgpu.cli.tenant_flags import MODES, PERIODS
from tgpu.domain.access import ROLES
from tgpu.domain.quota import OverQuota, Period


def a_quota(tenant_id: str, **changes: Any) -> dict[str, Any]:
    quota: dict[str, Any] = {
        "quota_id": tenant_id,
        "tenant_id": tenant_id,
        "gpu_type_limits": {},
        "gpu_type_used": {},
        "generic_limits": {},
        "generic_used": {},
        "gpu_hours_period": "month",
        "version": 1,
    }
    for name in ("cpu", "gpu", "running_jobs", "waiting_jobs", "gpu_hours"):
        quota |= {f"{name}_limit": None, f"{name}_used": 0}
    for name in ("mem", "disk"):
        quota |= {f"{name}_limit_mb": None, f"{name}_used_mb": 0}
    return quota | changes


def a_tenant(tenant_id: str, **changes: Any) -> dict[str, Any]:
    quota = a_quota(tenant_id, **changes.pop("quota", {}))
    terms = {
        "default_class": "default",
        "classes": ["default", "low"],
        "default_time_limit_s": None,
        "max_time_limit_s": None,
        "over_quota": "reject",
        "may_burst": True,
        "archived": False,
    }
    own = dict.fromkeys(terms)
    tenant: dict[str, Any] = {"tenant_id": tenant_id, "weight": 1, "tier": None, **own, "archived": False}
    effective = terms | changes.pop("effective", {})
    return tenant | changes | {"effective": effective, "quota": quota}


def rows(text: str) -> list[list[str]]:
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]


def test_the_words_are_those_of_the_domain() -> None:
    assert set(PERIODS) == set(Period)
    assert set(MODES) == set(OverQuota)
    assert list(ROLE_WORDS) == list(ROLES)


def test_tenants_are_drawn_as_a_tree_with_what_each_is_due(server: FakeTgpu, tgpu: Tgpu) -> None:
    tenants = [
        a_tenant("default"),
        a_tenant("lab", weight=3, quota={"gpu_used": 3, "gpu_limit": 6, "running_jobs_used": 2}),
        a_tenant("lab/old", weight=9, archived=True, effective={"archived": True}),
        a_tenant("lab/speech", over_quota="queue", max_time_limit_s=7200),
        a_tenant("lab/vision", weight=2, quota={"gpu_used": 3, "gpu_hours_used": 1.25}),
        a_tenant("lab/vision/ann", tier="gold", classes=["low"]),
    ]
    server.fixed["/tenants"] = {"tenants": tenants}
    assert rows(tgpu("tenants").stdout) == [
        ["TENANT", "WEIGHT", "DUE", "GPUS", "CPUS", "MEMORY", "RUNNING", "WAITING", "GPU-HOURS", "TERMS"],
        ["default", "1", "25%", "0", "0", "0", "0", "0"],
        ["lab", "3", "75%", "3/6", "0", "0", "2", "0"],
        ["├─ speech", "1", "25%", "0", "0", "0", "0", "0", "queues, at most 2h00m"],
        ["└─ vision", "2", "50%", "3", "0", "0", "0", "0", "1.25"],
        ["└─ ann", "1", "50%", "0", "0", "0", "0", "0", "tier gold, only low"],
        ["GPUS, CPUS, MEMORY: admitted; of a tenant that rejects what is beyond its quota, also what waits"],
        ["1 archived, without jobs: `tgpu tenants -a` shows them"],
    ]
    archived = rows(tgpu("tenants", "list", "--all").stdout)[3]
    assert archived == ["├─ old", "9", "-", "0", "0", "0", "0", "0", "archived"]
    assert tgpu("tenants", "-q").stdout == "default\nlab\nlab/speech\nlab/vision\nlab/vision/ann\n"
    assert json.loads(tgpu("tenants", "--json", "-a").stdout) == tenants
    assert json.loads(tgpu("tenants", "--json", "list", "--all").stdout) == tenants
    tenants[4]["quota"] |= {"gpu_hours_reserved": 1.15, "gpu_hours_limit": 500}
    drawn = rows(tgpu("tenants").stdout)
    assert drawn[4][-1] == "0.1+1.15/500"
    assert ["GPU-HOURS: used, + what is reserved by what runs, until its time limits"] in drawn
    tenants[2]["quota"]["waiting_jobs_used"] = 1
    still = ["├─ old", "9", "-", "0", "0", "0", "0", "1", "archived"]
    assert rows(tgpu("tenants").stdout)[3] == still
    server.fixed["/tenants"] = {"tenants": tenants[:2], "complete": False}
    assert [row[2] for row in rows(tgpu("tenants").stdout)[1:3]] == ["-", "-"]


def test_one_tenant_is_shown_with_its_own_words_and_those_from_above(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/tenants/lab/vision"] = a_tenant(
        "lab/vision",
        weight=3,
        max_time_limit_s=7200,
        budget_gpu_hours=500,
        budget_period="month",
        budget_used_gpu_hours=120.5,
        effective={"over_quota": "queue", "max_time_limit_s": 7200},
        effective_from={
            "classes": "tier guest",
            "default_class": "parent lab",
            "max_time_limit_s": "own",
            "over_quota": "parent lab",
            "may_burst": "default",
        },
        quota={"gpu_limit": 4, "gpu_used": 3, "gpu_burst": 1},
    )
    assert tgpu("tenants", "show", "lab/vision").stdout.splitlines() == [
        "lab/vision",
        "  weight        3",
        "  classes       default low (tier guest)",
        "  default class default (from lab)",
        "  longest time  2h00m",
        "  over quota    queue (from lab)",
        "  may burst     yes (unless said)",
        "  budget        120.5 of 500 GPU-hours a month",
        "  GPUs  ███████████████░░░░░  3/4  1 left, 1 on the burst",
    ]


@pytest.mark.parametrize(
    ("budget", "spent", "said"),
    [
        (0.001, 0, "0 of 0.001 GPU-hours in all"),
        (0.02, 0.0004, "<0.001 of 0.02 GPU-hours in all"),
        (1, 0.015, "0.015 of 1 GPU-hour in all"),
    ],
)
def test_a_small_budget_is_not_nothing(
    server: FakeTgpu, tgpu: Tgpu, budget: float, spent: float, said: str
) -> None:
    given = {"budget_gpu_hours": budget, "budget_period": "ever", "budget_used_gpu_hours": spent}
    server.fixed["/tenants/lab"] = a_tenant("lab", **given)
    assert f"  budget        {said}\n" in tgpu("tenants", "show", "lab").stdout


def test_a_budget_without_a_period_says_by_which_it_counts(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["POST /tenants"] = server.fixed["PATCH /tenants/lab"] = a_tenant(
        "lab", budget_period="month"
    )
    by = "its budget counts by month, since none of day, week, month, ever was named"
    assert tgpu("tenants", "add", "lab", "--budget", "0.2").stdout == f"Tenant lab is there; {by}\n"
    assert tgpu("tenants", "set", "lab", "--budget", "0.2").stdout == f"Tenant lab is changed; {by}\n"
    assert tgpu("tenants", "set", "lab", "--budget", "1/day").stdout == "Tenant lab is changed\n"


def test_a_name_that_is_kept_is_taken_over_by_a_flag(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["POST /tenants"] = Refusal(409, "lab was removed: … (`?take_over=true`)", "name-kept")
    assert tgpu("tenants", "add", "lab").stderr == "tgpu: lab was removed: … (`--take-over`)\n"
    server.fixed["POST /tenants"] = a_tenant("lab")
    assert tgpu("tenants", "add", "lab", "--take-over").returncode == 0
    assert [one["query"] for one in server.asked("POST", "/tenants")] == [{}, {"take_over": "true"}]


def test_tenants_are_made_and_changed_by_flags(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["POST /tenants"] = server.fixed["PATCH /tenants/lab"] = a_tenant("lab")
    words = (
        "--weight 2 --classes default,low --max-time 2d --over queue --burst no --budget 500/week --gpus 6"
    )
    done = tgpu("tenants", "add", "lab", *words.split())
    assert (done.returncode, done.stdout) == (0, "Tenant lab is there\n")
    assert server.asked("POST", "/tenants")[0]["body"] == {
        "tenant_id": "lab",
        "weight": 2,
        "classes": ["default", "low"],
        "max_time_limit_s": 2 * 86400,
        "over_quota": "queue",
        "may_burst": False,
        "budget_gpu_hours": 500,
        "budget_period": "week",
        "gpu_limit": 6,
    }
    flags = "--tier none --default-class low --classes none --default-time 90m --max-time none --over none"
    assert (
        tgpu("tenants", "set", "lab", *flags.split(), "--burst", "none", "--budget", "none").returncode == 0
    )
    assert tgpu("tenants", "archive", "lab").stdout == "Tenant lab takes no new jobs\n"
    assert tgpu("tenants", "unarchive", "lab").stdout == "Tenant lab takes jobs again\n"
    assert [one["body"] for one in server.asked("PATCH", "/tenants/lab")] == [
        {
            "tier": None,
            "default_class": "low",
            "classes": None,
            "default_time_limit_s": 5400,
            "max_time_limit_s": None,
            "over_quota": None,
            "may_burst": None,
            "budget_gpu_hours": None,
        },
        {"archived": True},
        {"archived": False},
    ]


def test_tenants_are_moved_and_removed(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["POST /tenants/lab/vision/move"] = a_tenant("org/vision", notes=["the rule *=lab/vision"])
    done = tgpu("tenants", "move", "lab/vision", "org/vision")
    assert done.stdout == "Tenant lab/vision is org/vision from now on\nnote: the rule *=lab/vision\n"
    assert server.asked("POST", "/tenants/lab/vision/move")[0]["body"] == {"to": "org/vision"}
    server.fixed["DELETE /tenants/lab"] = Refusal(409, "lab has 2 jobs that wait or run")
    done = tgpu("tenants", "remove", "lab")
    assert (done.returncode, done.stderr) == (6, "tgpu: lab has 2 jobs that wait or run\n")
    server.fixed["DELETE /tenants/lab"] = {}
    assert tgpu("tenants", "remove", "lab", "--json").stdout == '{"tenant_id": "lab"}\n'


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("tenants set lab", "what shall change?"),
        ("tenants add lab --weight 1.5", "--weight must be a whole number; got 1.5"),
        ("tenants add lab --classes low,urgent", "--classes must be some of real-time,high,default,low"),
        ("tenants set lab --max-time soon", "--max-time must be a duration"),
        ("tenants set lab --budget 5/year", "--budget must be like 500/month; a period is day, week"),
        ("tenants show lab/quota", "and no part of it members, move, quota; got 'lab/quota'"),
        ("tenants show lab/../root", "a tenant is named like"),
        ("tenants lab", "invalid choice: 'lab'"),
        ("quota set lab", "what shall change? such as --gpus 8"),
        ("quota set lab --gpus many", "--gpus must be a number, such as 2 or 0.5; got 'many'"),
        ("quota set lab --gpus -1", "--gpus must not be negative; got -1"),
        ("quota set lab --memory -5G", "--memory must not be negative; got -5G"),
        ("quota set lab --gpu-hours -5/month", "--gpu-hours must not be negative; got -5"),
        ("tenants set lab --gpus 8", "--gpus is a limit: `tgpu quota set TENANT --gpus …` changes it"),
        ("quota set lab --memory 1X", "--memory must be a size such as 512M or 16G"),
        ("quota set lab --gpus-of a100", "--gpus-of must be given as MODEL=N, such as a100=4"),
        ("quota set lab --resource lic=1.5", "--resource lic must be a whole number"),
        ("quota set lab --gpu-hours 5/hour", "--gpu-hours must be like 500/month"),
        ("users add ann", "where? name a tenant, or say --everywhere"),
        ("users add ann lab --everywhere", "where? name a tenant, or say --everywhere"),
        ("users add ann lab --role king", "invalid choice: 'king'"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_told_before_anybody_is_asked(
    server: FakeTgpu, tgpu: Tgpu, words: str, said: str
) -> None:
    done = tgpu(*words.split())
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr
    assert server.requests == []


def test_the_quota_is_shown_level_by_level_and_what_is_left_of_all(server: FakeTgpu, tgpu: Tgpu) -> None:
    lab = a_tenant(
        "lab",
        quota={"gpu_limit": 8, "gpu_used": 7, "mem_limit_mb": 524288, "mem_used_mb": 262144, "cpu_used": 12},
    )
    vision = a_tenant(
        "lab/vision",
        effective={"over_quota": "queue"},
        quota={
            "gpu_limit": 6,
            "gpu_used": 2,
            "gpu_type_limits": {"a100": 1},
            "gpu_type_used": {"a100": 1},
            "gpu_type_burst": {"a100": 1},
            "generic_limits": {"lic": 2},
            "generic_burst": {"lic": 1},
            "running_jobs_limit": 20,
            "running_jobs_used": 1,
            "gpu_hours_limit": 500,
            "gpu_hours_used": 120.5,
            "gpu_hours_reserved": 48,
        },
    )
    server.fixed |= {
        "/whoami": {"user_id": "ann", "home_tenant_id": "lab/vision"},
        "/tenants/lab": lab,
        "/tenants/lab/vision": vision,
    }
    done = tgpu("quota")
    spent = "this month: 72.5 used, 48 reserved by what runs"
    left = "1 GPU, 256G memory, 0 GPUs of a100, 2 lic, 19 running tasks, 379.5 GPU-hours this month"
    assert done.stdout.splitlines() == [
        "lab",
        "  GPUs    █████████████████░░░        7/8  1 left",
        "  memory  ██████████░░░░░░░░░░  256G/512G  256G left",
        "  without limit: 12 CPUs",
        "lab/vision  what does not fit waits",
        "  GPUs       ██████░░░░░░░░░░░░░░        2/6  4 left",
        "  GPUs a100  ████████████████████        1/1  nothing left, 1 on the burst",
        "  lic        ░░░░░░░░░░░░░░░░░░░░        0/2  2 left, 1 on the burst",
        "  running    █░░░░░░░░░░░░░░░░░░░       1/20  19 left",
        f"  GPU-hours  ████░░░░░░░░░░░░░░░░  120.5/500  {spent}; 379.5 left",
        f"left for lab/vision: {left}",
    ]
    assert json.loads(tgpu("quota", "lab/vision", "--json").stdout) == [lab["quota"], vision["quota"]]
    assert json.loads(tgpu("quota", "--json", "lab").stdout) == [lab["quota"]]
    assert tgpu("quota", "nobody").returncode == 4


def test_gpu_hours_without_a_limit_are_told_in_their_two_parts(server: FakeTgpu, tgpu: Tgpu) -> None:
    quota = {"gpu_used": 4, "gpu_hours_used": 96.1, "gpu_hours_reserved": 96}
    server.fixed["/tenants/lab"] = a_tenant("lab", quota=quota)
    hours = "GPU-hours this month: 0.1 used, 96 reserved by what runs"
    assert tgpu("quota", "lab").stdout == f"lab\n  no limits; in use: 4 GPUs, {hours}\n"


def test_a_level_that_is_kept_back_is_left_out(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed |= {"/tenants/lab": Refusal(403, "not yours"), "/tenants/lab/vision": a_tenant("lab/vision")}
    assert tgpu("quota", "lab/vision").stdout == "lab/vision\n  no limits\n"
    refused = tgpu("quota", "lab")
    assert (refused.returncode, refused.stderr) == (5, "tgpu: not yours\n")
    server.fixed["/whoami"] = {"user_id": "ann", "home_tenant_id": None}
    lost = tgpu("quota")
    assert (lost.returncode, "name one: `tgpu tenants` lists them" in lost.stderr) == (4, True)


def test_limits_are_set_and_taken_away(server: FakeTgpu, tgpu: Tgpu) -> None:
    path = "/tenants/lab/quota"
    server.fixed["PATCH " + path] = a_quota("lab", gpu_limit=8, gpu_hours_period="week")
    server.fixed["PATCH /tenants/lab"] = a_tenant("lab", quota={"gpu_limit": 8})
    flags = "--gpus 8 --cpus 0.5 --memory 1G --disk none --running 20 --waiting none --gpu-hours 500"
    more = "--gpus-of a100=4 --gpus-of h100=none --resource lic=2"
    done = tgpu("quota", "set", "lab", *flags.split(), *more.split())
    assert (done.returncode, done.stdout) == (
        0,
        (
            "Quota of lab\n  GPUs  ░░░░░░░░░░░░░░░░░░░░  0/8  8 left\n"
            "GPU-hours are counted by week, since none of day, week, month, ever was named\n"
        ),
    )
    assert server.asked("PATCH", path)[0]["body"] == {
        "gpu_limit": 8,
        "cpu_limit": 0.5,
        "mem_limit_mb": 1024,
        "disk_limit_mb": None,
        "running_jobs_limit": 20,
        "waiting_jobs_limit": None,
        "gpu_hours_limit": 500,
        "gpu_type_limits": {"a100": 4, "h100": None},
        "generic_limits": {"lic": 2},
    }
    assert tgpu("quota", "set", "lab", "--gpu-hours", "none", "--force").returncode == 0
    forced = server.asked("PATCH", path)[1]
    assert (forced["query"], forced["body"]) == ({"force": "true"}, {"gpu_hours_limit": None})
    assert tgpu("quota", "set", "lab", "--over", "queue").returncode == 0
    assert server.asked("PATCH", "/tenants/lab")[0]["body"] == {"over_quota": "queue"}
    words = "gpu_type_limits: no node has a 'a10'; there is: A100. `?force=true` takes it anyway"
    server.fixed["PATCH " + path] = Refusal(422, words)
    refused = tgpu("quota", "set", "lab", "--gpus-of", "a10=1", "--over", "reject")
    said = "--gpus-of: no node has a 'a10'; there is: A100. `--force` takes it anyway"
    assert (refused.returncode, refused.stderr) == (6, f"tgpu: {said}\n")
    assert len(server.asked("PATCH", "/tenants/lab")) == 1


def test_of_a_held_job_the_list_says_which_limit_it_waits_for(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {1: a_job(1, tenant_id="lab", held=True, reason="it is held; `tgpu why 1` says more")}
    server.fixed["/jobs/1/why"] = {"summary": "held by the quota of tenant lab: 4 of 4 GPUs are admitted"}
    assert rows(tgpu("list").stdout)[1][-1] == "held by the quota of tenant lab: 4 of 4 GPUs are admitted"
    assert "quota      held: nothing is charged until it starts" in tgpu("show", "1").stdout


def test_users_are_given_roles(server: FakeTgpu, tgpu: Tgpu) -> None:
    member = {"user_id": "ann", "tenant_id": "lab/vision", "role": "operator"}
    server.fixed |= {"/tenants/lab/vision/members/ann": member, "/members/eve": {}}
    done = tgpu("users", "add", "ann", "lab/vision", "--role", "operator")
    assert done.stdout == "ann is operator in lab/vision\n"
    assert (
        tgpu("users", "add", "eve", "--everywhere", "--role", "viewer").stdout == "eve is viewer everywhere\n"
    )
    assert server.asked("PUT", "/tenants/lab/vision/members/ann")[0]["body"] == {"role": "operator"}
    assert server.asked("PUT", "/members/eve")[0]["body"] == {"role": "viewer"}
    done = tgpu("users", "remove", "ann", "lab/vision")
    assert done.stdout == "ann has no role of their own in lab/vision any more\n"
    assert len(server.asked("DELETE", "/tenants/lab/vision/members/ann")) == 1


def test_users_are_listed(server: FakeTgpu, tgpu: Tgpu) -> None:
    ann = {
        "user_id": "ann", "tenant_id": "lab", "role": "user", "by": "root",
        "at": "2026-01-31T12:00:00.000Z",
    }  # fmt: skip
    eve = {"user_id": "eve", "tenant_id": "*", "role": "viewer", "by": "root", "at": ann["at"]}
    server.fixed["/members"] = {"members": [ann, eve]}
    assert rows(tgpu("users").stdout)[1:] == [
        ["ann", "lab", "user", "root", "2026-01-31 12:00:00"],
        ["eve", "everywhere", "viewer", "root", "2026-01-31 12:00:00"],
    ]
    server.fixed["/tenants/lab/members"] = {"members": [ann]}
    assert json.loads(tgpu("users", "list", "--tenant", "lab", "--json").stdout) == [ann]
    assert tgpu("users", "-q").stdout == "ann\neve\n"
    server.fixed["/members"] = {"members": [ann | {"has_account": False}, eve | {"has_account": True}]}
    gone, there, note = rows(tgpu("users").stdout)[1:]
    assert (gone[0], there[0]) == ("ann (no account)", "eve")
    assert note[0].startswith("no account: whoever gets an account of that name gets the role")
    server.fixed["/members"] = {"members": []}
    assert tgpu("users").stdout == "nobody was given a role\n"
