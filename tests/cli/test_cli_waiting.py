"""Jobs that wait for others or for a moment: how they are submitted, held, released, changed and drawn."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fake_tgpu import FakeTgpu, Refusal, a_job

from tests.cli.cli_process import Tgpu
from tgpu.dialects.native.moments import coming
from tgpu.dialects.native.problems import JobFieldError

NOON = datetime(2026, 1, 20, 12, tzinfo=UTC).timestamp()


def test_needs_moments_and_holds_are_sent_as_the_api_knows_them(server: FakeTgpu, tgpu: Tgpu) -> None:
    done = tgpu(
        "submit", "--after", "41", "--after", "afterany:42:43", "--begin", "2030-01-20T12:34", "--deadline",
        "2030-01-21", "--hold", "--requeue-on-timeout", "--time", "1h", "--", "true",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (job,) = server.submitted()
    said = {
        "after": ["41", "afterany:42:43"],
        "begin_at": "2030-01-20T12:34:00Z",
        "deadline_at": "2030-01-21T00:00:00Z",
        "hold": True,
        "requeue_on_timeout": True,
    }
    assert {name: job[name] for name in said} == said
    tgpu("submit", "--dependency", "afterok:41:42,singleton", "--", "true")
    assert server.submitted()[-1]["after"] == ["afterok:41:42,singleton"]
    tgpu("submit", "--after", "last", "--after", "afterany:last-1:9", "--", "true")
    assert server.submitted()[-1]["after"] == ["2", "afterany:1:9"]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--after", "x"], "--after must be like 41, afterok:41:42"),
        (["--dependency", "afterok:"], "--dependency must name jobs by their numbers, such as 41; got ''"),
        (["--after", "1", "--dependency", "2"], "'dependency' says after a second time; keep one of them"),
        (["--begin", "soon"], "--begin must be a moment such as 16:00, now+1hour"),
        (["--deadline", "25:00"], "--deadline must be a moment such as 16:00"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_the_words_that_were_typed(
    tgpu: Tgpu, flags: list[str], sentence: str
) -> None:
    done = tgpu("submit", *flags, "--", "true")
    assert done.returncode == 2
    assert sentence in done.stderr


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("now", "2026-01-20T12:00:00Z"),
        ("now+90", "2026-01-20T12:01:30Z"),
        ("now+1hour", "2026-01-20T13:00:00Z"),
        ("now + 2 days", "2026-01-22T12:00:00Z"),
        ("2h", "2026-01-20T14:00:00Z"),
        ("16:00", "2026-01-20T16:00:00Z"),
        ("9:05:30", "2026-01-21T09:05:30Z"),
        ("tomorrow", "2026-01-21T00:00:00Z"),
        ("midnight", "2026-01-21T00:00:00Z"),
        ("noon", "2026-01-21T12:00:00Z"),
        ("teatime", "2026-01-20T16:00:00Z"),
        ("2026-03-01", "2026-03-01T00:00:00Z"),
        ("2026-03-01T12:34:56+02:00", "2026-03-01T10:34:56Z"),
    ],
)
def test_moments_are_understood(text: str, meant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import time  # noqa: PLC0415  only here

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert coming("--begin", text, NOON) == meant


@pytest.mark.parametrize(
    "text", ["", "now+", "now+1parsec", "24:00", "12:60", "2026-13-01", "1-99:99:99", "7"]
)
def test_moments_that_nobody_can_mean_are_refused(text: str) -> None:
    with pytest.raises(JobFieldError, match="--begin must be a moment such as"):
        coming("--begin", text, NOON)


def test_a_file_holds_many_jobs_with_names_and_needs(server: FakeTgpu, tgpu: Tgpu, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(
        "time: 1h\njobs:\n"
        "  prepare: {command: prepare.sh, time: 10m}\n"
        "  train: {command: train.sh, needs: prepare, gpus: 2}\n"
        "  report: {command: report.sh, needs: [train, 'afterany:prepare'], begin: '22:00'}\n"
    )
    done = tgpu("submit", "-f", str(file), "--no-export-env")
    assert done.stdout == "Submitted 3 jobs: 1-3\n", done.stderr
    (request,) = server.asked("POST", "/jobs")
    jobs = request["body"]["jobs"]
    assert [(job["name"], job.get("needs"), job["time_limit_s"]) for job in jobs] == [
        ("prepare", None, 600),
        ("train", ["prepare"], 3600),
        ("report", ["train", "afterany:prepare"], 3600),
    ]
    file.write_text("name: a\ncommand: x\n---\nname: b\ncommand: y\nneeds: [a]\n")
    assert tgpu("submit", "-f", str(file)).stdout == "Submitted 2 jobs: 4-5\n"
    twice = tgpu("submit", "-f", str(file), "--count", "2")
    assert (twice.returncode, "--count and jobs that need each other" in twice.stderr) == (2, True)
    file.write_text("jobs: {}\n")
    assert "jobs must hold at least one job" in tgpu("submit", "-f", str(file)).stderr
    file.write_text("jobs: {a: true}\n")
    assert "job a is written as `key: value` lines" in tgpu("submit", "-f", str(file)).stderr


def test_a_circle_is_refused_in_the_words_of_the_server(server: FakeTgpu, tgpu: Tgpu, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text("jobs:\n  a: {command: x, needs: b}\n  b: {command: y, needs: a}\n")
    server.fixed["POST /jobs"] = Refusal(422, "needs: a → b → a is a circle", "invalid-field")
    done = tgpu("submit", "-f", str(file))
    assert (done.returncode, done.stderr) == (2, "tgpu: needs: a → b → a is a circle\n")


def test_jobs_are_held_and_released(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {1: a_job(1), 2: a_job(2), 3: a_job(3)}
    server.fixed |= {
        "POST /jobs/1/hold": a_job(1),
        "POST /jobs/2/hold": Refusal(409, "job 2 cannot be held, for only what waits can be: it is running"),
        "POST /jobs/3/hold": a_job(3),
        "POST /jobs/1/release": a_job(1),
    }
    done = tgpu("hold", "1-3")
    assert done.stdout == "Held jobs 1,3\n"
    assert done.stderr == "tgpu: job 2 cannot be held, for only what waits can be: it is running\n"
    assert done.returncode == 6
    assert tgpu("release", "1").stdout == "Released job 1\n"
    assert json.loads(tgpu("release", "1", "--json").stdout)["job_id"] == 1
    assert tgpu("hold", "1", "-q").stdout == "1\n"


def test_jobs_that_wait_are_changed(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {1: a_job(1)}
    server.fixed["PATCH /jobs/1"] = a_job(1)
    done = tgpu(
        "edit", "1", "--time", "2h", "--gpus", "1", "--memory", "4G", "--class", "low", "--priority", "3",
        "--without", "pool", "--without", "tolerate", "--begin", "2030-01-20",
    )  # fmt: skip
    assert done.stdout == "Changed job 1\n", done.stderr
    assert server.asked("PATCH", "/jobs/1")[-1]["body"] == {
        "time_limit_s": 7200,
        "gpu_request": 1,
        "mem_request_mb": 4096,
        "priority_class": "low",
        "priority": 3,
        "pool": None,
        "tolerations": [],
        "begin_at": "2030-01-20T00:00:00Z",
    }
    assert "nothing to change" in tgpu("edit", "1").stderr
    assert "such as %5: its indices stay" in tgpu("edit", "1", "--array", "0-9%5").stderr
    for said in (("--array", "%5"), ("--parallelism", "5")):
        assert tgpu("edit", "1", *said).returncode == 0
        assert server.asked("PATCH", "/jobs/1")[-1]["body"] == {"at_once": 5}
    assert "contradict each other" in tgpu("edit", "1", "--time", "2h", "--without", "time").stderr
    server.fixed["PATCH /jobs/1"] = Refusal(422, "time_limit_s must be at most 1h in tenant lab; got 2h")
    assert tgpu("edit", "1", "--time", "2h").stderr == (
        "tgpu: --time must be at most 1h in tenant lab; got 2h\n"
    )


def _in_graph(job_id: int, name: str, status: str, **more: Any) -> dict[str, Any]:
    return {"job_id": job_id, "name": name, "status": status, "held_by": None, "needs_met": True, **more}


def _need(job_id: int, on: int | None, kind: str = "afterok") -> dict[str, Any]:
    return {"job_id": job_id, "on_job_id": on, "kind": kind}


def test_the_graph_is_drawn(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/graph"] = {
        "jobs": [
            _in_graph(1, "prepare", "completed"),
            _in_graph(2, "train", "running"),
            _in_graph(3, "check", "pending", held_by="ann"),
            _in_graph(4, "report", "pending"),
            _in_graph(5, 'a "\\', "pending"),
        ],
        "needs": [
            _need(2, 1),
            _need(3, 1),
            _need(4, 2),
            _need(4, 3, "afterany"),
            _need(5, 1, "afternotok"),
            _need(5, None, "singleton"),
        ],
        "cut": False,
    }
    assert tgpu("graph").stdout == (
        "1 prepare, completed\n"
        "├─ 2 train, running\n"
        "├─ 3 check, pending, held by ann\n"
        "│  └─ 4 report, pending, afterany, also after 2\n"
        '└─ 5 a "\\, pending, afternotok, singleton\n'
    )
    assert tgpu("graph", "--dot").stdout.splitlines()[3:] == [
        r'  3 [label="3 check\npending\nheld by ann"];',
        r'  4 [label="4 report\npending"];',
        r"""  5 [label="5 a '\\\npending\nsingleton"];""",
        "  1 -> 2;",
        "  1 -> 3;",
        "  2 -> 4;",
        '  3 -> 4 [label="afterany"];',
        '  1 -> 5 [label="afternotok"];',
        "}",
    ]
    server.jobs = {4: a_job(4)}
    tgpu("graph", "4")
    assert server.asked("GET", "/graph")[-1]["query"] == {"ids": "4"}
    server.fixed["/graph"] = {"jobs": [], "needs": [], "cut": True}
    nothing = tgpu("graph")
    assert nothing.stderr == (
        "tgpu: none of your live jobs waits for another\n"
        "tgpu: there are more jobs than are shown: name some of them\n"
    )
    unknown = tgpu("graph", "4")
    assert unknown.stderr == "tgpu: there is no such job; `tgpu list --all` shows those there are\n"
    assert unknown.returncode == 4


def test_a_chain_of_thousands_is_drawn(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/graph"] = {
        "jobs": [_in_graph(n, "x", "pending") for n in range(1, 1501)],
        "needs": [_need(n, n - 1) for n in range(2, 1501)],
        "cut": False,
    }
    assert len(tgpu("graph").stdout.splitlines()) == 1500
