"""Commands about who is calling, with what, and who changed what: whoami, token, secret, audit."""

import json
import re
from pathlib import Path

import pytest
from fake_tgpu import FakeTgpu, Refusal

import tgpu as tgpu_package
from tests.cli.cli_process import Tgpu
from tgpu.cli.audit_changes import ACTIONS
from tgpu.cli.commands.token import _ACTIONS
from tgpu.domain.access import Action
from tgpu.domain.node_orders import NodeVerb


def rows(text: str) -> list[list[str]]:
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]


def test_the_words_for_what_a_token_may_do_are_those_of_the_domain() -> None:
    assert list(_ACTIONS) == list(Action)


def test_whoami_says_who_by_whose_word_and_which_roles(server: FakeTgpu, tgpu: Tgpu) -> None:
    me = {
        "user_id": "ann",
        "via": "token",
        "role": None,
        "home_tenant_id": "lab/vision",
        "memberships": [{"tenant_id": "lab", "role": "operator"}],
        "token": {
            "token_id": 3,
            "role": "user",
            "tenant_id": "lab",
            "actions": ["read", "submit"],
            "highest_class": "low",
            "jobs_left": 1,
            "gpu_hours_left": 2.5,
            "expires_at": "2030-01-31T12:00:00.000Z",
        },
    }
    server.fixed["/whoami"] = me
    assert tgpu("whoami").stdout.splitlines() == [
        "ann  by a token",
        "  tenant      lab/vision",
        "  roles       operator in lab",
        "  token       user, in lab, only read submit, up to low, 1 job left, 2.5 GPU-hours left",
        "  expires     2030-01-31 12:00:00",
    ]
    assert tgpu("whoami", "-q").stdout == "ann\n"
    assert json.loads(tgpu("whoami", "--json").stdout) == me
    server.fixed["/whoami"] = me | {"home_role": "user", "home_exists": True}
    assert "  roles       operator in lab, user in lab/vision, by a rule\n" in tgpu("whoami").stdout
    server.fixed["/whoami"] = me | {"home_role": "operator", "home_tenant_id": "lab", "home_exists": True}
    assert "  roles       operator in lab\n" in tgpu("whoami").stdout, "what was given need not be said twice"
    server.fixed["/whoami"] = {
        "user_id": "root",
        "via": "socket",
        "role": "admin",
        "home_tenant_id": "default",
    }
    assert tgpu("whoami").stdout.splitlines() == [
        "root  by this machine's word",
        "  everywhere  admin",
        "  tenant      default",
    ]


def test_a_home_that_does_not_exist_is_told_by_whoami_and_quota(server: FakeTgpu, tgpu: Tgpu) -> None:
    me = {"user_id": "eve", "via": "socket", "home_tenant_id": "people/eve", "home_exists": False}
    server.fixed["/whoami"] = me
    told = "does not exist: an operator adds it (tgpu tenants add people/eve), or corrects the setting"
    assert f"people/eve, which {told}" in tgpu("whoami").stdout
    done = tgpu("quota")
    assert (done.returncode, done.stdout) == (4, "")
    assert f"your tenant people/eve {told}" in done.stderr


def test_tokens_are_shown_once_listed_and_revoked(server: FakeTgpu, tgpu: Tgpu) -> None:
    made = {"token": "tgpu_secret", "token_id": 4}
    server.fixed |= {"POST /tokens": made, "/tokens": {"tokens": []}, "/tokens/4": {}}
    done = tgpu("token", "create", "--expires", "30d", "--note", "ci")
    assert (done.stdout, done.stderr) == ("tgpu_secret\n", "tgpu: token 4\n")
    assert server.asked("POST", "/tokens")[0]["body"] == {"expires_in_s": 30 * 86400, "note": "ci"}
    assert tgpu("token", "revoke", "4").stdout == "Token 4 is revoked\n"
    token = {"token_id": 4, "user_id": "ann", "note": "ci", "expires_at": None, "role": "user"}
    server.fixed["/tokens"] = {"tokens": [token | {"tenant_id": "lab", "jobs_left": 3}]}
    row = rows(tgpu("token", "list").stdout)[1]
    assert row == ["4", "ann", "-", "never", "user, in lab, 3 jobs left", "ci"]
    server.fixed["/tokens"] = {"tokens": [token | {"revoked": True}]}
    assert tgpu("token", "revoke", "4").stdout == "Token 4 was revoked already\n"
    server.fixed["/tokens/99"] = Refusal(404, "you have no token with that id", "not-found")
    gone = tgpu("token", "revoke", "99")
    assert (gone.returncode, "there is no token 99 that you may revoke" in gone.stderr) == (4, True)


def test_a_token_tells_which_one_made_it_and_whether_it_is_over(server: FakeTgpu, tgpu: Tgpu) -> None:
    ends = {"expires_at": "2020-01-31T12:00:00.000Z", "parent_token_id": 9}
    server.fixed["POST /tokens"] = {"token": "tgpu_secret", "token_id": 4, "ends_with_parent": True} | ends
    said = tgpu("token", "create", "--expires", "90d").stderr
    assert re.fullmatch(r"tgpu: token 4, expires 2020-\S+ \S+, with token 9 that it was made with\n", said)
    server.fixed["/tokens"] = {"tokens": [{"token_id": 4, "role": "user"} | ends]}
    listed = tgpu("token", "list").stdout
    assert "(expired)" in listed
    assert "user, by token 9" in listed


def test_a_token_whose_account_is_gone_is_marked(server: FakeTgpu, tgpu: Tgpu) -> None:
    there = {"token_id": 4, "user_id": "ann", "role": "user", "has_account": True}
    gone = there | {"token_id": 5, "user_id": "bob", "has_account": False}
    server.fixed["/tokens"] = {"tokens": [there, gone, gone | {"token_id": 6, "revoked": True}]}
    _, *listed, told = tgpu("token", "list").stdout.splitlines()
    assert ["no account" in line for line in listed] == [False, True, False]
    assert told.startswith("no account: refused until there is an account of that name again")


def test_it_is_told_how_many_go_with_a_token(server: FakeTgpu, tgpu: Tgpu) -> None:
    parents = {4: None, 5: 4, 6: 5, 7: 4, 8: 7, 9: None}
    tokens = [{"token_id": each, "parent_token_id": parent} for each, parent in parents.items()]
    tokens[4]["revoked"] = True
    server.fixed |= {"/tokens": {"tokens": tokens}, "/tokens/4": {}, "/tokens/5": {}, "/tokens/9": {}}
    assert tgpu("token", "revoke", "4").stdout == "Token 4 is revoked, and 3 tokens that were made with it\n"
    assert tgpu("token", "revoke", "5").stdout == "Token 5 is revoked, and 1 token that was made with it\n"
    assert tgpu("token", "revoke", "9").stdout == "Token 9 is revoked\n"


def test_a_refused_token_is_told_in_flags(server: FakeTgpu, tgpu: Tgpu) -> None:
    said = "this token is good only in lab: name it"
    server.fixed["POST /tokens"] = Refusal(403, f"tenant_id: {said}", "forbidden")
    assert tgpu("token", "create").stderr == f"tgpu: --tenant: {said}\n"


def test_a_token_is_narrowed_by_flags(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/tokens"] = {"token": "tgpu_secret", "token_id": 4}
    flags = "--for ci --role user --tenant lab/ci --actions read,submit --max-class low --jobs 500"
    assert tgpu("token", "create", *flags.split(), "--gpu-hours", "2.5", "-q").stdout == "tgpu_secret\n"
    assert server.asked("POST", "/tokens")[0]["body"] == {
        "user_id": "ci",
        "role": "user",
        "tenant_id": "lab/ci",
        "actions": ["read", "submit"],
        "highest_class": "low",
        "jobs": 500,
        "gpu_hours": 2.5,
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("token create --actions read,all", "--actions must be some of read,logs,submit,cancel,enter,manage"),
        ("token create --jobs few", "--jobs must be a number"),
        ("token create --gpu-hours -1", "--gpu-hours"),
        ("token revoke tgpu_secret", "which one? its number"),
        ("token create --expires soon", "--expires must be a duration from 1s to 366d, such as 90d; got"),
        ("token create --expires 0s", "--expires must be a duration from 1s to 366d"),
        ("token create --expires 367d", "--expires must be a duration from 1s to 366d"),
        ("token create --expires 9999d", "--expires must be a duration from 1s to 366d"),
        ("nodes join-token --expires 9999d", "--expires must be a duration from 1s to 366d"),
        ("token create --max-class urgent", "invalid choice: 'urgent'"),
        ("secret set a/b", "a secret is named like hf-token; got 'a/b'"),
        ("secret set key", "there is nothing in stdin"),
        ("secret set key --from /nowhere", "cannot read /nowhere: No such file or directory"),
        ("submit --secret KEY -- true", "--secret must be given as VAR=NAME, or VAR=file:/PATH; got 'KEY'"),
        ("submit --secret KEY=file:key -- true", "--secret KEY must name the whole path on the node"),
        ("submit --secret KEY= -- true", "--secret KEY must name a secret"),
        ("audit --since soon", "--since must be like 7d"),
        ("audit --since 1h --until 2h", "--since must be before --until"),
        ("audit --limit x", "must be a whole number from 0"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_told_before_anybody_is_asked(
    server: FakeTgpu, tgpu: Tgpu, words: str, said: str
) -> None:
    done = tgpu(*words.split())
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr
    assert server.requests == []


def test_a_secret_is_kept_without_the_newline_at_its_end(
    server: FakeTgpu, tgpu: Tgpu, tmp_path: Path
) -> None:
    server.fixed["/secrets/hf-token"] = {}
    done = tgpu("secret", "set", "hf-token", stdin="hush\n")
    assert (done.returncode, done.stdout) == (0, "Secret hf-token is kept\n")
    key = tmp_path / "key"
    key.write_bytes(b"\x01two\nlines\r\n")
    assert tgpu("secret", "set", "hf-token", "--from", str(key)).returncode == 0
    assert [one["body"] for one in server.asked("PUT", "/secrets/hf-token")] == [b"hush", b"\x01two\nlines"]
    key.write_bytes(b"x" * (64 * 1024 + 1))
    done = tgpu("secret", "set", "hf-token", "--from", str(key))
    assert (done.returncode, "at most 64 KiB" in done.stderr) == (2, True)


def test_secrets_are_listed_and_forgotten(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/secrets"] = {"secrets": [{"name": "hf-token", "set_at": "2026-01-31T12:00:00.000Z"}]}
    assert rows(tgpu("secret", "list").stdout)[1] == ["hf-token", "2026-01-31 12:00:00"]
    assert tgpu("secret", "list", "-q").stdout == "hf-token\n"
    server.fixed["/secrets"] = {"secrets": []}
    assert tgpu("secret", "list").stdout == "no secrets\n"
    server.fixed["/secrets/hf-token"] = {}
    assert tgpu("secret", "remove", "hf-token").stdout.startswith("Secret hf-token is forgotten")
    assert len(server.asked("DELETE", "/secrets/hf-token")) == 1


def test_a_job_names_its_secrets_and_never_holds_them(server: FakeTgpu, tgpu: Tgpu, tmp_path: Path) -> None:
    done = tgpu("submit", "--secret", "HF_TOKEN=hf-token", "--secret", "KEY=file:/root/key", "--", "true")
    assert done.returncode == 0, done.stderr
    by_name = {"HF_TOKEN": "store:hf-token", "KEY": "file:/root/key"}
    assert server.submitted()[0]["secret_env"] == by_name
    tgpu("submit", "--secret", "HF_TOKEN=hf-token", "--", "true", HF_TOKEN="hush")
    assert "HF_TOKEN" not in server.submitted()[1]["env"]
    (tmp_path / "job.yaml").write_text("command: 'true'\nsecrets:\n  HF_TOKEN: hf-token\n")
    assert tgpu("submit", "-f", str(tmp_path / "job.yaml")).returncode == 0
    assert server.submitted()[2]["secret_env"] == {"HF_TOKEN": "store:hf-token"}
    assert "HF_TOKEN from store:hf-token, KEY from file:/root/key" in tgpu("show", "1").stdout


ENTRY = {
    "audit_id": 7,
    "at": "2026-01-31T12:00:00.000Z",
    "user_id": "bob",
    "via": "token",
    "token_id": 3,
    "address": "10.0.0.7",
    "action": "tenant.update",
    "target": "lab/vision",
    "before": {"weight": 1, "limits": {"gpu_milli": 4000, "cpu_milli": None}, "terms": {"classes": None}},
    "after": {"weight": 3, "limits": {"gpu_milli": None, "cpu_milli": None}, "terms": {"classes": ["low"]}},
}


def test_the_audit_log_says_who_changed_what_from_where(server: FakeTgpu, tgpu: Tgpu) -> None:
    made = ENTRY | {
        "audit_id": 6, "via": "socket", "token_id": None, "address": "", "action": "tenant.create",
        "before": None, "after": {"weight": 1, "limits": {}},
    }  # fmt: skip
    server.fixed["/audit"] = {"entries": [ENTRY, made], "next_cursor": None}
    when = "2026-01-31 12:00:00"
    changes = "weight 1 → 3; GPUs 4 → none; classes none → low"
    assert rows(tgpu("audit").stdout)[1:] == [
        ["7", when, "bob", "token 3 10.0.0.7", "tenant.update", "lab/vision", changes],
        ["6", when, "bob", "socket", "tenant.create", "lab/vision", "weight 1"],
    ]
    assert json.loads(tgpu("audit", "--json").stdout) == [ENTRY, made]
    server.fixed["/audit"] = {"entries": [], "next_cursor": None}
    flags = "--user bob --action tenant --target lab --since 2026-01-01 --until 2026-02-01 --limit 5"
    assert tgpu("audit", *flags.split()).stdout == "no such lines in that time\n"
    assert server.asked("GET", "/audit")[-1]["query"] == {
        "user": "bob",
        "action": "tenant",
        "target": "lab",
        "since": "2026-01-01T00:00:00Z",
        "until": "2026-02-01T00:00:00Z",
        "limit": "6",
    }


@pytest.mark.parametrize(
    ("action", "changed", "said"),
    [
        ("member.set", ({"user": "ann", "role": "user"}, {"user": "ann", "role": "operator"}),
         "ann: user → operator"),
        ("member.set", (None, {"user": "ann", "role": "user"}), "ann: none → user"),
        ("member.remove", ({"user": "ann", "role": "user"}, None), "ann: user → none"),
        ("job.cancel", (None, {"user": "ann", "job_ids": [3, 7, 8]}), "user ann; jobs 3,7-8"),
        ("token.revoke", ({"user": "ann", "role": "user", "note": "ci", "jobs_left": 3}, None), "of ann: ci"),
        ("token.create", (None, {"user": "ann", "expires_ms": 1769860800000, "gpu_ms_left": 9_000_000}),
         "user ann; expires 2026-01-31 12:00:00; GPU-hours left 2.5"),
        ("tenant.move", ({"tenant_id": "lab"}, {"tenant_id": "org/lab"}), "is org/lab from then on"),
        ("tenant.create",
         (None, {"weight": 1, "job_limits": {"period": "month"}, "terms": {"archived": False}}), "weight 1"),
        ("tenant.update",
         ({"limits": {"memory_mib": None, "gpu:a100": 1500, "generic:lic": 1},
           "job_limits": {"gpu_ms": None}},
          {"limits": {"memory_mib": 16384, "gpu:a100": None, "generic:lic": 2},
           "job_limits": {"gpu_ms": 1_800_000}}),
         "memory none → 16G; GPUs of a100 1.5 → none; lic 1 → 2; GPU-hours none → 0.5"),
        ("tenant.update",
         ({"terms": {"most_limit_s": 7200, "archived": False}, "budget": None},
          {"terms": {"most_limit_s": 5400, "archived": True},
           "budget": {"gpu_ms": 3_600_000, "period": "week"}}),
         "longest time 2h00m → 1h30m; archived no → yes; budget none → 1 GPU-hour a week"),
        ("tenant.update", ({"budget": {"gpu_ms": 3_600_000}}, {"budget": {"gpu_ms": 3600}}),
         "budget 1 GPU-hour → 0.001 GPU-hours"),
        ("tenant.create", (None, {"weight": 1, "took_over": True}), "weight 1; took over ended jobs: yes"),
        ("tenant.update", ({"budget": {"period": "day"}}, {"budget": {"period": "month"}}),
         "budget by the day → by the month"),
        ("tenant.update", ({"budget": {"gpu_ms": 7_200_000, "period": "ever"}}, {"budget": None}),
         "budget 2 GPU-hours in all → none"),
        ("tenant.create", (None, {"weight": 1, "budget": {"gpu_ms": 7_200_000, "period": "day"}}),
         "weight 1; budget 2 GPU-hours a day"),
    ],
)  # fmt: skip
def test_changes_are_told_in_the_units_of_people(
    server: FakeTgpu, tgpu: Tgpu, action: str, changed: tuple[object, object], said: str
) -> None:
    before, after = changed
    entry = ENTRY | {"action": action, "before": before, "after": after}
    server.fixed["/audit"] = {"entries": [entry], "next_cursor": None}
    assert tgpu("audit").stdout.splitlines()[1].endswith(f"lab/vision  {said}")


def test_an_action_that_there_is_not_is_answered_with_those_there_are(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/audit"] = {"entries": [], "next_cursor": None}
    done = tgpu("audit", "--action", "quota")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        "there is no action 'quota'; there are: job.attach, job.cancel, job.edit, job.enter," in done.stderr
    )


def test_the_actions_are_those_that_are_written() -> None:
    source = Path(tgpu_package.__file__).parent
    text = "".join(path.read_text() for part in ("api", "store") for path in (source / part).rglob("*.py"))
    written = re.findall(r"(?:Change|note)\((?:\w+, )?\"([a-z-]+\.[a-z]+)\"", text)
    assert {*written, *(f"node.{verb}" for verb in NodeVerb)} == set(ACTIONS)


def test_a_long_audit_log_comes_page_after_page(server: FakeTgpu, tgpu: Tgpu) -> None:
    pages = [
        {"entries": [ENTRY] * 500, "next_cursor": "x"},
        {"entries": [ENTRY] * 20, "next_cursor": None},
    ]
    answer = server.answer
    server.answer = lambda request: (200, pages[request["query"].get("cursor") == "x"])  # type: ignore[method-assign]
    assert len(json.loads(tgpu("audit", "--json").stdout)) == 520
    server.answer = answer  # type: ignore[method-assign]
    server.fixed["/audit"] = {"entries": [ENTRY] * 51, "next_cursor": "x"}
    shown = tgpu("audit").stdout.splitlines()
    assert (len(shown), shown[-1]) == (52, "more with `--limit 0`")
