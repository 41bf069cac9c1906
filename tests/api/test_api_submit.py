import threading

import httpx
import pytest

from tests.api.conftest import NOW_MS, ServerUnderTest
from tgpu.domain.access import Actor
from tgpu.domain.quota import Limits
from tgpu.domain.tenant import Tenant
from tgpu.store.port import StoreUnavailableError


def problem(answer: httpx.Response, status: int) -> dict[str, object]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["status"] == status
    assert told["type"].startswith("urn:tgpu:problem:")
    assert told["title"]
    return dict(told)


def refusal(client: httpx.Client, job: object, status: int = 422) -> str:
    return str(problem(client.post("/jobs", json=job), status)["detail"])


def test_a_job_is_submitted_and_shown_whole(client: httpx.Client, me: str) -> None:
    answer = client.post(
        "/jobs",
        json={
            "command": ["/usr/bin/python", "train.py"],
            "env": {"API_TOKEN": "s3cret", "EPOCHS": "10"},
            "cwd": "/tmp",
            "cpu_request": 1.5,
            "mem_request_mb": 1024,
            "cpu_limit": 3.5,
            "mem_limit_mb": 2048,
            "disk_request_mb": 10,
            "gpu_request": 0.25,
            "gpu_type": "A100",
            "gpu_memory_mb": 40960,
            "exclusive": True,
            "generic": {"port": 2, "licence": 1},
            "pool": "training",
            "node_selector": {"zone": "a"},
            "node_rules": ["rack in (r1,r2)", "disk == ssd", "!spot", "gpu-memory>=40"],
            "tolerations": ["team=vision", "spot"],
            "priority_class": "high",
            "priority": -5,
            "time_limit_s": 3600,
            "max_wait_s": 60,
            "requeue": False,
            "once": True,
            "on_return": "replacement",
            "grace_s": 5,
            "stop_signal": "sigusr2",
            "warn_signal": 10,
            "warn_s": 90,
            "warn_main": True,
            "output": "out-%j.txt",
            "open_mode": "append",
            "dialect": "slurm",
            "annotations": {"partition": "gpu,long"},
        },
    )
    assert answer.status_code == 201
    assert answer.headers["location"] == "/jobs/1"
    expected = {
        "job_id": 1,
        "tenant_id": "default",
        "user_id": me,
        "name": "python",
        "command": ["/usr/bin/python", "train.py"],
        "image": None,
        "image_digest": None,
        "mounts": None,
        "shm_size_mb": None,
        "read_only": False,
        "ignore_entrypoint": False,
        "container_cwd": None,
        "network": None,
        "pull": None,
        "starting_note": None,
        "env": {"API_TOKEN": "s3cret", "EPOCHS": "10"},
        "secret_env": {},
        "cwd": "/tmp",
        "cpu_request": 1.5,
        "mem_request_mb": 1024,
        "cpu_limit": 3.5,
        "mem_limit_mb": 2048,
        "disk_request_mb": 10,
        "gpu_request": 0.25,
        "gpu_type": "A100",
        "gpu_memory_mb": 40960,
        "exclusive": True,
        "generic": {"licence": 1, "port": 2},
        "pool": "training",
        "node_selector": {"zone": "a"},
        "node_rules": ["rack in (r1, r2)", "disk=ssd", "!spot", "gpu-memory >= 40"],
        "tolerations": ["spot", "team=vision"],
        "priority_class": "high",
        "priority": -5,
        "time_limit_s": 3600,
        "max_wait_s": 60,
        "requeue": False,
        "once": True,
        "pty": False,
        "shared_tmp": False,
        "tasks": 1,
        "tasks_per_node": None,
        "nodes": None,
        "topology": None,
        "gang": False,
        "fail_together": True,
        "task_counts": {"pending": 1},
        "on_return": "replacement",
        "grace_s": 5,
        "stop_signal": "USR2",
        "warn_signal": "USR1",
        "warn_s": 90,
        "warn_main": True,
        "after": [],
        "needs_met": True,
        "begin_at": None,
        "deadline_at": None,
        "requeue_on_timeout": False,
        "held_by": None,
        "array": None,
        "at_once": None,
        "completions": None,
        "parallelism": None,
        "completion_mode": None,
        "backoff_limit": None,
        "backoff_limit_per_index": None,
        "max_failures": None,
        "failure_rules": [],
        "failure_count": 0,
        "active_deadline_s": None,
        "ttl_after_finished_s": None,
        "suspended_by": None,
        "output": "out-%j.txt",
        "error": None,
        "open_mode": "append",
        "snapshot": None,
        "snapshot_root": None,
        "snapshot_commit": None,
        "snapshot_dirty": False,
        "dialect": "slurm",
        "annotations": {"partition": "gpu,long"},
        "status": "pending",
        "cause": None,
        "reason": None,
        "exit_code": None,
        "cancel_requested_by": None,
        "assigned_node_id": None,
        "devices": [],
        "attempt_count": 0,
        "submitted_at": "2030-03-17T17:46:40.000Z",
        "started_at": None,
        "ended_at": None,
        "giving_way": False,
        "expected_start": None,
        "start_interval": None,
        "no_expected_start": None,
        "last_saved_at": None,
        "held": False,
    }
    assert answer.json() == expected
    shown = client.get("/v1/jobs/1").json()
    assert (shown.pop("attempts"), shown.pop("advice")) == ([], [])
    assert [event["kind"] for event in shown.pop("events")] == ["submitted"]
    assert shown == expected


def test_gpu_memory_may_be_asked_for_alone_with_whole_gpus_and_with_a_part(client: httpx.Client) -> None:
    for gpus in (0, 0.5, 2):
        job = client.post("/jobs", json={"command": "x", "gpu_request": gpus, "gpu_memory_mb": 1024}).json()
        assert (job["gpu_request"], job["gpu_memory_mb"]) == (gpus, 1024)


@pytest.mark.parametrize(
    ("asked", "limits"),
    [
        ({}, (1, None)),
        ({"cpu_request": 2, "mem_request_mb": 512}, (2, 512)),
        ({"cpu_request": 2, "mem_request_mb": 512, "cpu_limit": 4, "mem_limit_mb": 512}, (4, 512)),
        ({"mem_limit_mb": 64}, (1, 64)),
        ({"exclusive": True, "mem_request_mb": 512}, (None, None)),
        ({"exclusive": True, "cpu_limit": 2}, (2, None)),
    ],
)
def test_a_job_may_use_what_it_reserves_unless_it_says_more(
    client: httpx.Client, asked: dict[str, object], limits: tuple[float | None, int | None]
) -> None:
    job = client.post("/jobs", json={"command": "x", **asked}).json()
    assert (job["cpu_limit"], job["mem_limit_mb"]) == limits


def test_a_wrong_term_is_named_as_the_field_of_the_problem(quiet_client: httpx.Client) -> None:
    for field, value in (
        ("pool", ""),
        ("generic", {"licence": 0}),
        ("tolerations", ["="]),
        ("node_rules", ["="]),
        ("gpu_memory_mb", -1),
    ):
        told = problem(quiet_client.post("/jobs", json={"command": "x", field: value}), 422)
        assert (told["field"], told["type"]) == (field, "urn:tgpu:problem:invalid-field")


def test_a_shell_line_gets_defaults_and_a_name(client: httpx.Client) -> None:
    job = client.post("/jobs", json={"command": "OMP=1 /bin/sleep 3 > /dev/null"}).json()
    assert job["name"] == "sleep"
    assert job["command"] == "OMP=1 /bin/sleep 3 > /dev/null"
    assert (job["cpu_request"], job["mem_request_mb"], job["gpu_request"]) == (1, 0, 0)
    assert job["cwd"] == "/root" or job["cwd"].startswith("/")


@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        ({}, "command is missing"),
        ({"command": []}, "command is empty"),
        ({"command": "  "}, "command is empty"),
        ({"command": [""]}, "command is empty"),
        ({"command": ["a", 3]}, "command[1] must be a string; got a whole number"),
        ({"command": 3}, "command must be a string or a list; got a whole number"),
        ({"command": ["a\0b"]}, "command must not contain a NUL"),
        ({"command": "x" * 140_000}, "command may have at most 128 KiB"),
        ({"command": "x", "cpu_request": 0}, "cpu_request must be more than 0"),
        ({"command": "x", "cpu_request": -1}, "cpu_request must not be negative; got -1"),
        ({"command": "x", "cpu_request": 0.0001}, "cpu_request may have at most 3 decimals"),
        ({"command": "x", "cpu_request": 1e300}, "cpu_request may be at most 1000000"),
        ({"command": "x", "cpu_request": "two"}, "cpu_request must be a number; got a string"),
        ({"command": "x", "cpu_request": True}, "cpu_request must be a number; got true or false"),
        ({"command": "x", "gpu_request": 1.5}, "ask for 0.5 or 2; got 1.5"),
        ({"command": "x", "gpu_request": -0.5}, "gpu_request must not be negative"),
        ({"command": "x", "mem_request_mb": 0.5}, "mem_request_mb must be a whole number; got 0.5"),
        ({"command": "x", "mem_request_mb": 2**62}, "mem_request_mb may be at most"),
        ({"command": "x", "time_limit_s": 0}, "time_limit_s must be at least 1"),
        (
            {"command": "x", "grace_s": 86_400},
            "grace_s may be at most 10m here, by the setting max_grace; got 1d",
        ),
        ({"command": "x", "priority": 1_000_001}, "priority must be from -1000000 to 1000000"),
        ({"command": "x", "priority": 10**30}, "priority"),
        (
            {"command": "x", "priority_class": "urgent"},
            "priority_class must be one of real-time, high, default, low, best-effort; got 'urgent'",
        ),
        ({"command": "x", "name": "a\nb"}, "name must be at most 200 printable characters"),
        ({"command": "x", "name": "a" * 201}, "name must be at most 200 printable characters"),
        ({"command": "x", "env": {"": "a"}}, "env: '' must be a name"),
        ({"command": "x", "env": {"A=B": "a"}}, "env: 'A=B' must be a name"),
        ({"command": "x", "env": {"A": "\0"}}, "env.A must not contain a NUL"),
        ({"command": "x", "env": {"A": 1}}, "env: each of its values must be a string; got a whole number"),
        ({"command": "x", "env": {"A": "x" * 140_000}}, "longer than the 128 KiB"),
        ({"command": "x", "env": {str(n): "x" * 100_000 for n in range(3)}}, "env may have at most 256 KiB"),
        ({"command": "x", "cwd": "tmp"}, "cwd must be an absolute path"),
        ({"command": "x", "cwd": "/no/such"}, "cwd: there is no directory /no/such on this machine"),
        ({"command": "x", "cwd": "/etc/passwd"}, "cwd: /etc/passwd is not a directory"),
        ({"command": "x", "cwd": "/" + "x" * 5000}, "cwd may have at most 4095 bytes"),
        ({"command": "x", "tenant_id": "Not A Tenant"}, "tenant_id must be up to 8 names"),
        ({"command": "x", "tenant_id": "nowhere"}, "there is no tenant 'nowhere'"),
        ({"command": "x", "gpu_type": ""}, "gpu_type must be 1 to 253 printable characters"),
        ({"command": "x", "gpu_type": "A100"}, "gpu_type says which GPU: ask for some, with gpu_request"),
        ({"command": "x", "node_selector": {"a": "\n"}}, "node_selector must be 1 to 253 printable"),
        ({"command": "x", "pool": ""}, "pool must be 1 to 253 printable characters"),
        ({"command": "x", "pool": 3}, "pool must be a string; got a whole number"),
        ({"command": "x", "gpu_memory_mb": 0.5}, "gpu_memory_mb must be a whole number; got 0.5"),
        ({"command": "x", "gpu_memory_mb": -1}, "gpu_memory_mb must not be negative"),
        ({"command": "x", "gpu_memory_mb": 2**62}, "gpu_memory_mb may be at most"),
        ({"command": "x", "generic": {"licence": 0}}, "generic licence must be at least 1; got 0"),
        (
            {"command": "x", "generic": {"licence": "a"}},
            "generic: each of its values must be a number; got a string",
        ),
        ({"command": "x", "generic": {"gpu": 1}}, "generic must not name 'gpu'"),
        ({"command": "x", "generic": ["licence=1"]}, "generic must be an object; got a list"),
        ({"command": "x", "tolerations": ["a b"]}, "tolerations must be given as key or key=value, or *"),
        ({"command": "x", "tolerations": "spot"}, "tolerations must be a list; got a string"),
        ({"command": "x", "tolerations": ["a"] * 65}, "tolerations may have at most 64 entries; got 65"),
        ({"command": "x", "node_rules": ["a b"]}, "node_rules must be rules such as `zone in (a, b)`"),
        ({"command": "x", "node_rules": ["a >= b"]}, "node_rules must compare with a number"),
        ({"command": "x", "node_rules": ["a"] * 65}, "node_rules may have at most 64 rules; got 65"),
        ({"command": "x", "node_rules": [3]}, "node_rules[0] must be a string; got a whole number"),
        (
            {"command": "x", "cpu_request": 2, "cpu_limit": 1.5},
            "cpu_limit must be at least cpu_request, which is 2: raise it, or leave it out; got 1.5",
        ),
        ({"command": "x", "cpu_limit": 2**62}, "cpu_limit may be at most"),
        (
            {"command": "x", "mem_request_mb": 64, "mem_limit_mb": 63},
            "mem_limit_mb must be at least mem_request_mb, which is 64: raise it, or leave it out; got 63",
        ),
        ({"command": "x", "mem_limit_mb": 0}, "mem_limit_mb must be at least 1"),
        ({"command": "x", "mem_limit_mb": 1.5}, "mem_limit_mb must be a whole number"),
        ({"command": "x", "user_id": "no-such-user"}, "there is no account 'no-such-user'"),
        ({"command": "x", "array": 4}, "array must be a string; got a whole number"),
        ({"image": "a;reboot"}, "image must be the name of an image"),
        ({"image": "a", "once": True}, "once: a job with an image cannot live at most once"),
        ({"image": "a", "mounts": ["/:/x"]}, "mounts cannot mount / itself"),
        ({"image": "a", "network": "other"}, "network must be one of bridge, host, none here"),
        ({"image": "a", "network": "container:1"}, "network must be none, bridge, host or the name of a"),
        ({"image": "a", "network": "ns:/proc/1/ns/net"}, "network must be none, bridge, host or the name"),
        *(
            ({"image": "a", name: "host"}, f"unknown field '{name}'")
            for name in ("pid", "pid_mode", "ipc", "ipc_mode", "userns", "userns_mode", "uts_mode", "hostPID")
        ),
        ({"image": "a", "privileged": True}, "unknown field 'privileged'"),
        ({"image": "a", "shm_size_mb": 0.5}, "shm_size_mb must be a whole number"),
        ({"command": "x", "mounts": ["/a:/b"]}, "mounts is about a container: say image, too"),
        ({"command": "x", "completions": -3}, "completions must be from 1 to 1000000; got -3"),
        ({"command": "x", "status": "running"}, "status is set by the server"),
        ({"command": "x", "gpu_reqest": 1}, "unknown field 'gpu_reqest'; did you mean gpu_request?"),
        ({"command": "x", "gpus": 1}, "unknown field 'gpus'; did you mean gpu_request?"),
        ({"command": "x", "time": "1h"}, "unknown field 'time'; did you mean time_limit_s?"),
        ({"command": "x", "zzz": 1}, "unknown field 'zzz'; known are "),
        ({"command": "x", "gpu_request": 9}, "can never run here: no node has more than 8 GPUs"),
        ([], "the body must be an object; got a list"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_sentence(
    quiet_client: httpx.Client, job: object, sentence: str
) -> None:
    assert sentence in refusal(quiet_client, job)
    assert quiet_client.get("/jobs").json()["jobs"] == []


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b'{"command": "\xff"}', b'{"command": "\\ud800"}', b"nonsense", b'{"jobs": ' + b"[" * 99_999],
)
def test_what_is_not_json_is_refused(quiet_client: httpx.Client, raw: bytes) -> None:
    assert "the body" in str(problem(quiet_client.post("/jobs", content=raw), 400)["detail"])


def test_one_job_may_have_a_mebibyte_and_many_sixty_four(client: httpx.Client) -> None:
    large = b'{"command": "x"' + b" " * (1024 * 1024) + b"}"
    assert "at most 1 MiB" in str(problem(client.post("/jobs", content=large), 413)["detail"])
    padded = b'{"jobs": [{"command": "x"}' + b" " * (1024 * 1024) + b"]}"
    assert client.post("/jobs", content=padded).status_code == 201
    pieces = (b" " * 2**20 for _ in range(66))
    assert "at most 64 MiB" in str(problem(client.post("/jobs", content=pieces), 413)["detail"])


def test_many_jobs_are_submitted_together_in_their_order(client: httpx.Client) -> None:
    jobs = [{"command": f"echo {n}", "name": f"job {n}"} for n in range(10_000)]
    answer = client.post("/jobs", json={"jobs": jobs})
    assert answer.status_code == 201
    assert answer.json() == {"job_ids": list(range(1, 10_001))}
    assert client.get("/jobs/1234").json()["name"] == "job 1233"


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ({"command": "x", "gpu_request": 1.5}, "jobs[1].gpu_request must be a fraction below 1"),
        ({"command": 5}, "jobs[1].command must be a string or a list; got a whole number"),
        ({}, "jobs[1].command is missing"),
        ({"command": "x", "nam": "a"}, "unknown field 'jobs[1].nam'; did you mean name?"),
        ({"command": "x", "image": "A"}, "jobs[1].image must be the name of an image"),
        ({"command": "x", "node_rules": ["a b"]}, "jobs[1].node_rules must be rules such as"),
        ({"command": "x", "gpu_request": 100}, "jobs[1] can never run here"),
        ({"command": "x", "jobs": []}, "unknown field 'jobs[1].jobs'"),
        (7, "jobs[1] must be an object; got a whole number"),
    ],
)
def test_one_bad_job_among_many_is_named_and_none_is_submitted(
    quiet_client: httpx.Client, bad: object, sentence: str
) -> None:
    told = problem(quiet_client.post("/jobs", json={"jobs": [{"command": "x"}, bad, {"command": "y"}]}), 422)
    assert sentence in str(told["detail"])
    assert quiet_client.get("/jobs").json()["jobs"] == []


@pytest.mark.parametrize("jobs", [[], [{"command": "x"}] * 10_001])
def test_no_jobs_and_too_many_are_refused(quiet_client: httpx.Client, jobs: list[object]) -> None:
    assert "jobs must have 1 to 10000 jobs" in refusal(quiet_client, {"jobs": jobs})


def test_many_jobs_take_no_fields_beside_them(quiet_client: httpx.Client) -> None:
    assert "unknown field 'name'" in refusal(quiet_client, {"jobs": [{"command": "x"}], "name": "all"})


def test_the_same_key_and_body_give_the_first_answer_again(client: httpx.Client) -> None:
    key = {"Idempotency-Key": "abc"}
    first = client.post("/jobs", json={"command": "x"}, headers=key)
    again = client.post("/jobs", json={"command": "x"}, headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert "idempotent-replay" not in first.headers
    assert again.headers["idempotent-replay"] == "true"
    assert again.json() == first.json()
    many = [
        client.post("/jobs", json={"jobs": [{"command": "x"}] * 3}, headers={"Idempotency-Key": "m"}).json()
        for _ in range(2)
    ]
    assert many[0] == many[1] == {"job_ids": [2, 3, 4]}


def test_the_same_key_for_another_body_is_a_conflict(client: httpx.Client) -> None:
    key = {"Idempotency-Key": "abc"}
    assert client.post("/jobs", json={"command": "x"}, headers=key).status_code == 201
    told = problem(client.post("/jobs", json={"command": "y"}, headers=key), 409)
    assert told["type"] == "urn:tgpu:problem:idempotency-conflict"


def test_a_key_belongs_to_its_user(client: httpx.Client, other: httpx.Client) -> None:
    key, job = {"Idempotency-Key": "abc"}, {"command": "x", "cwd": "/"}
    ids = [asker.post("/jobs", json=job, headers=key).json()["job_id"] for asker in (client, other)]
    assert ids == [1, 2]


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_a_key_has_a_sensible_length(quiet_client: httpx.Client, key: str) -> None:
    answer = quiet_client.post("/jobs", json={"command": "x"}, headers={"Idempotency-Key": key})
    assert "Idempotency-Key must be" in str(problem(answer, 400)["detail"])


def test_requests_at_once_with_one_key_make_one_job(server: ServerUnderTest, client: httpx.Client) -> None:
    ids: list[int] = []

    def ask() -> None:
        with server.unix() as own:
            answer = own.post("/jobs", json={"command": "x"}, headers={"Idempotency-Key": "k"})
            ids.append(answer.json()["job_id"])

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ids == [1] * 12
    assert len(client.get("/jobs").json()["jobs"]) == 1


def test_a_full_quota_is_told_with_numbers_and_with_what_would_fit(
    server: ServerUnderTest, client: httpx.Client
) -> None:
    server.run(
        server.store.create_tenant(Tenant("lab", limits=Limits(gpu_milli=2000)), Actor("root", "server"), 1)
    )
    half = {"command": "x", "tenant_id": "lab", "gpu_request": 0.5}
    assert client.post("/jobs", json=half).status_code == 201
    told = problem(client.post("/jobs", json={**half, "gpu_request": 2}), 409)
    assert told["detail"] == (
        "tenant lab may have 2 GPUs at once and 0.5 are taken; this asks for 2 more. Up to 1.5 would fit "
        "now; wait until some of its jobs end, or ask an administrator for a higher quota. It may not run "
        "on the burst, which is for jobs of class low"
    )
    numbers = {"resource": "gpu", "limit": 2, "used": 0.5, "asked": 2, "would_fit": 1.5, "tenant_id": "lab"}
    assert numbers.items() <= told.items()


def test_jobs_are_taken_while_nobody_leads(server: ServerUnderTest, client: httpx.Client) -> None:
    server.live.leads = False
    assert client.post("/jobs", json={"command": "x"}).status_code == 201


def test_a_store_that_cannot_write_says_when_to_come_again(
    server: ServerUnderTest, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "the disk is full: free some space below /var/lib/tgpu"

    async def full(*_: object, **__: object) -> None:
        raise StoreUnavailableError(why, "nothing was changed")

    for question in ("submit", "job", "jobs"):
        monkeypatch.setattr(server.store, question, full)
    answer = client.post("/jobs", json={"command": "x"})
    assert problem(answer, 503)["detail"] == f"{why}; nothing was changed"
    assert int(answer.headers["retry-after"]) > 0
    for path in ("/jobs", "/jobs/1"):
        assert problem(client.get(path), 503)["detail"] == why, "who looks changes nothing anyway"


def test_a_mistake_of_the_server_is_told_without_its_traceback(
    server: ServerUnderTest, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("secret of the house")

    monkeypatch.setattr(server.store, "submit", broken)
    answer = client.post("/jobs", json={"command": "x"})
    assert problem(answer, 500)["type"] == "urn:tgpu:problem:internal"
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text


def test_time_stands_where_the_server_says(server: ServerUnderTest, client: httpx.Client) -> None:
    server.now_ms = NOW_MS + 1234
    assert client.post("/jobs", json={"command": "x"}).json()["submitted_at"] == "2030-03-17T17:46:41.234Z"
