"""`tgpu submit`: the forms of a command, what a job gets of the environment, and files."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from fake_tgpu import FakeTgpu, Refusal

from tests.cli.cli_process import Tgpu
from tgpu.api.job_form import JobAsked
from tgpu.cli.fields import LATER
from tgpu.domain.label_rules import label_rules


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["--", "python", "train.py", "--lr", "3"], ["python", "train.py", "--lr", "3"]),
        (["--", "python train.py | tee out"], "python train.py | tee out"),
        (["--", "cmd=python train.py"], "python train.py"),
        (["--", "cmd=hostname"], "hostname"),
        (["--", "hostname"], ["hostname"]),
        (["--", "sh", "-c", "echo a -- b"], ["sh", "-c", "echo a -- b"]),
        (["hostname", "-f"], ["hostname", "-f"]),
    ],
)
def test_each_form_of_a_command_means_what_it_says(
    server: FakeTgpu, tgpu: Tgpu, words: list[str], command: object
) -> None:
    assert tgpu("submit", *words).stdout == "Submitted job 1\n"
    assert server.submitted()[0]["command"] == command


@pytest.mark.parametrize(
    ("name", "text", "before"),
    [
        ("executable.sh", "#!/bin/sh\necho hi\n", []),
        ("executable", "\x7fELF\0", []),
        ("executable_without.sh", "echo hi\n", ["/bin/sh"]),
        ("executable_without.py", "print()\n", ["python3"]),
        ("run.sh", "echo hi\n", ["/bin/sh"]),
        ("run.sh", "#!/usr/bin/env bash\n", ["/usr/bin/env", "bash"]),
        ("train.py", "print()\n", ["python3"]),
    ],
)
def test_a_script_is_run_by_its_own_interpreter(
    server: FakeTgpu, tgpu: Tgpu, tmp_path: Path, *, name: str, text: str, before: list[str]
) -> None:
    script = tmp_path / "work" / name
    script.write_text(text)
    script.chmod(0o755 if name.startswith("executable") else 0o644)
    tgpu("submit", "--gpus", "1", name, "--epochs", "3")
    assert server.submitted()[0]["command"] == [*before, str(script), "--epochs", "3"]


def test_every_flag_reaches_its_field(server: FakeTgpu, tgpu: Tgpu) -> None:
    flags = (
        "--gpus 2 --gpu-type A100 --cpus 0.5 --memory 16G --disk 10G --priority -5 --class high --time 2h "
        "--max-wait 10m --name x --grace 30s --tenant org/team --node-selector zone=a --exclusive "
        "--no-requeue --once --on-return replacement --cwd /data --no-export-env --env A=1 --env B=x=y"
    )
    flags += (
        " --pool training --tolerate spot --tolerate team=a --resource licence=2 --gpu-memory 40G --where !a"
    )
    done = tgpu("submit", *flags.split(), "--where", "zone in (a, b)", "--", "hostname")
    assert done.returncode == 0, done.stderr
    assert server.submitted()[0] == {
        "command": ["hostname"],
        "gpu_request": 2,
        "gpu_type": "A100",
        "cpu_request": 0.5,
        "mem_request_mb": 16384,
        "disk_request_mb": 10240,
        "priority": -5,
        "priority_class": "high",
        "time_limit_s": 7200,
        "max_wait_s": 600,
        "name": "x",
        "grace_s": 30,
        "tenant_id": "org/team",
        "node_selector": {"zone": "a"},
        "pool": "training",
        "tolerations": ["spot", "team=a"],
        "generic": {"licence": 2},
        "gpu_memory_mb": 40960,
        "node_rules": ["!a", "zone in (a, b)"],
        "exclusive": True,
        "requeue": False,
        "once": True,
        "on_return": "replacement",
        "cwd": "/data",
        "submit_host": os.uname().nodename,
        "env": {"A": "1", "B": "x=y"},
    }


def test_the_caller_s_environment_goes_along_without_its_session(server: FakeTgpu, tgpu: Tgpu) -> None:
    session = {
        "SSH_AUTH_SOCK": "/x",
        "DISPLAY": ":0",
        "TERM": "xterm",
        "TGPU_JOB_ID": "7",
        "SLURM_JOB_ID": "7",
        "CUDA_VISIBLE_DEVICES": "0",
        "DBUS_SESSION_BUS_ADDRESS": "x",
        "XDG_RUNTIME_DIR": "/run/user/1",
        "OLDPWD": "/",
        "_": "/bin/tgpu",
    }
    tgpu("submit", "--env", "CONDA_PREFIX=/other", "--", "hostname", CONDA_PREFIX="/conda", **session)
    env = server.submitted()[0]["env"]
    assert (env["CONDA_PREFIX"], "PATH" in env, "HOME" in env) == ("/other", True, True)
    assert not set(env) & {*session, "TGPU_HOME", "PWD"}


def test_a_job_runs_where_it_was_submitted(server: FakeTgpu, tgpu: Tgpu, tmp_path: Path) -> None:
    tgpu("submit", "--", "hostname")
    tgpu("submit", "--cwd", "sub", "--", "hostname")
    assert [job["cwd"] for job in server.submitted()] == [f"{tmp_path}/work", f"{tmp_path}/work/sub"]


def test_a_link_is_kept_as_the_shell_named_it(server: FakeTgpu, tgpu: Tgpu, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "work")
    tgpu("submit", "--", "hostname", PWD=f"{tmp_path}/link")
    tgpu("submit", "--", "hostname", PWD="/somewhere/else")
    assert [job["cwd"] for job in server.submitted()] == [f"{tmp_path}/link", f"{tmp_path}/work"]


def test_three_renderers_of_one_answer(server: FakeTgpu, tgpu: Tgpu) -> None:
    assert server.running
    assert tgpu("submit", "--", "a").stdout == "Submitted job 1\n"
    assert tgpu("submit", "--quiet", "--", "a").stdout == "2\n"
    assert json.loads(tgpu("submit", "--json", "--", "a").stdout)["job_id"] == 3


def test_many_alike_are_submitted_at_once(server: FakeTgpu, tgpu: Tgpu) -> None:
    assert tgpu("submit", "--count", "3", "--", "a").stdout == "Submitted 3 jobs: 1-3\n"
    assert json.loads(tgpu("submit", "--count", "2", "--json", "--", "a").stdout) == {"job_ids": [4, 5]}
    assert len(server.submitted()) == 2


def test_a_file_may_use_friendly_names_and_flags_override_it(
    server: FakeTgpu, tgpu: Tgpu, tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "name: demo\ncommand: python train.py\nnum_gpus: 1\npriority: 5\ncpus: 2\nmemory: 2G\n"
        "time_limit: 1h\nenv: {DEBUG: true, N: 3, NOTE: ~}\n"
    )
    tgpu("submit", "-f", str(file), "--priority", "9", "--no-export-env", "--env", "N=4")
    job = server.submitted()[0]
    assert job.pop("cwd") == f"{tmp_path}/work"
    assert job.pop("submit_host") == os.uname().nodename
    assert job == {
        "name": "demo",
        "command": "python train.py",
        "gpu_request": 1,
        "priority": 9,
        "cpu_request": 2,
        "mem_request_mb": 2048,
        "time_limit_s": 3600,
        "env": {"DEBUG": "true", "N": "4", "NOTE": ""},
    }


def test_a_file_may_ask_for_nodes_of_a_kind(server: FakeTgpu, tgpu: Tgpu) -> None:
    text = (
        "command: a\npool: p\ntolerations: ['*']\ngeneric: {licence: 2}\ngpu_memory_mb: 40G\n"
        "node_rules: [zone in (a), '!spot']\n---\n"
        "command: b\ntolerate: spot\nresources: {port: 1}\ngpu_memory: 1024\nwhere: ssd\n"
    )
    assert tgpu("submit", "-f", "-", stdin=text).returncode == 0
    first, second = (
        {k: v for k, v in job.items() if k not in ("env", "cwd", "submit_host")}
        for job in server.submitted()[0]["jobs"]
    )
    assert first == {
        "command": "a",
        "pool": "p",
        "tolerations": ["*"],
        "generic": {"licence": 2},
        "gpu_memory_mb": 40960,
        "node_rules": ["zone in (a)", "!spot"],
    }
    assert second == {
        "command": "b",
        "tolerations": ["spot"],
        "generic": {"port": 1},
        "gpu_memory_mb": 1024,
        "node_rules": ["ssd"],
    }


def test_a_file_of_several_documents_is_several_jobs(server: FakeTgpu, tgpu: Tgpu) -> None:
    text = "command: [a, 1, true, 3.10]\ngpus: 0.25\n---\ncommand: b\n---\n"
    assert tgpu("submit", "-f", "-", stdin=text).stdout == "Submitted 2 jobs: 1-2\n"
    jobs = server.submitted()[0]["jobs"]
    assert [(job["command"], job.get("gpu_request")) for job in jobs] == [
        (["a", "1", "true", "3.10"], 0.25),
        ("b", None),
    ]


def test_several_files_are_one_submission_and_none_is_taken_for_a_script(
    server: FakeTgpu, tgpu: Tgpu, tmp_path: Path
) -> None:
    one, other = tmp_path / "one.yaml", tmp_path / "other.yml"
    one.write_text("{name: a, command: a}")
    other.write_text("{name: b, command: b, needs: a}")
    assert tgpu("submit", "-f", str(one), "-f", str(other)).stdout == "Submitted 2 jobs: 1-2\n"
    assert [job["command"] for job in server.submitted()[0]["jobs"]] == ["a", "b"]
    for flags in (["-f", str(one)], []):
        done = tgpu("submit", *flags, str(other))
        assert done.stderr == f"tgpu: {other} is a job file, and no script: say -f {other}\n"
    assert len(server.submitted()) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("comand: a", "-: unknown key 'comand'; did you mean 'command'?"),
        ("command: a\narray: 5-1", "-: array: 5-1 is backwards; write 1-5"),
        ("command: a\nmagic: x", "-: unknown key 'magic'; known are "),
        ("command: a\n---\nnum_gpu: 1", "-, job 2: unknown key 'num_gpu'; did you mean 'num_gpus'?"),
        (
            "command: a\ngpus: 1\nnum_gpus: 2",
            "-: 'num_gpus' says gpu_request a second time; keep one of them",
        ),
        ("command: a\ncommand: b", "- is not a job file: key 'command' is given twice (line 2)"),
        ("a: &x [1]\nb: *x", "- is not a job file: aliases (*name) are not allowed here (line 2)"),
        ("!!python/object/apply:os.system [id]", "python/object/apply:os.system' is not allowed here"),
        ("command: [a", "- is not a job file: expected ',' or ']'"),
        ("command: a\nmemory: lots", "-: memory must be a size such as 512M or 16G; got 'lots'"),
        ("command: a\ngpus: -1", "-: gpus must not be negative; got -1"),
        ("command: a\nclass: urgent", "class must be one of real-time, high, default, low, best-effort"),
        ("command: a\nrequeue: perhaps", "-: requeue must be true or false; got 'perhaps'"),
        (
            "command: a\ngeneric: {licence: x}",
            "-: generic licence must be a whole number, such as licence=2; got",
        ),
        (
            "command: a\ngeneric: licence",
            "-: generic must be given as NAME=N, such as licence=2; got 'licence'",
        ),
        ("command: a\nwhere: {zone: a}", "-: where must be text; got {'zone': 'a'}"),
        ("command: a\nwhere: [a b]", "-: where must be a list of rules, each such as 'zone in (a, b)',"),
        ("- a\n- b", "-: a job is written as `key: value` lines"),
        ("", "- holds 0 jobs"),
        ("name: x", "nothing to run"),
        ("[" * 5000, "- is not a job file: it is nested too deeply"),
        ("x" * 1_100_000, "- is larger than 1 MiB"),
    ],
)
def test_a_wrong_file_is_told_in_one_line(server: FakeTgpu, tgpu: Tgpu, text: str, said: str) -> None:
    done = tgpu("submit", "-f", "-", stdin=text)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr[-500:]
    assert done.stderr.startswith("tgpu: ")
    assert said in done.stderr
    assert server.submitted() == []


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "nothing to run"),
        (["--"], "nothing to run"),
        (["--gpus", "many", "--", "a"], "--gpus must be a number"),
        (["--time", "soon", "--", "a"], "--time must be a duration such as 90s, 2h30m"),
        (["--priority", "high", "--", "a"], "--priority must be a whole number"),
        (["--env", "NOVALUE", "--", "a"], "--env must be given as KEY=VALUE"),
        (["--gpu", "1", "--", "a"], "unrecognized arguments: --gpu; did you mean --gpus? (see"),
        *(
            (["--image", "a", flag, "host", "--", "a"], f"unrecognized arguments: {flag}")
            for flag in ("--pid", "--ipc", "--userns", "--uts", "--cgroupns")
        ),
        (["--image", "a", "--privileged", "--", "a"], "unrecognized arguments: --privileged"),
        (["stray", "--", "a"], "'stray' before `--`"),
        (["-f", "/nonexistent.yaml"], "cannot read /nonexistent.yaml: No such file"),
        (["-f", "/tmp"], "/tmp is a folder: name its files, each with -f"),
        (["--count", "0", "--", "a"], "--count must be at least 1"),
        (
            ["--count", "100001", "--", "a"],
            "--count may be at most 100,000 here, for 100,000 jobs at once; got 100,001",
        ),
        (["--env", "A=1", "--env", "FOO", "--", "a"], "--env must be given as KEY=VALUE; got 'FOO'"),
        (
            ["--resource", "licence", "--", "a"],
            "--resource must be given as NAME=N, such as licence=2; got 'licence'",
        ),
        (
            ["--resource", "licence=x", "--", "a"],
            "--resource licence must be a whole number, such as licence=2; got",
        ),
        (["--gpu-memory", "much", "--", "a"], "--gpu-memory must be a size such as 512M or 16G"),
        (["--class", "urgent", "--", "a"], "--class: invalid choice: 'urgent'"),
    ],
)
def test_wrong_usage_is_told_in_one_line(server: FakeTgpu, tgpu: Tgpu, args: list[str], said: str) -> None:
    done = tgpu("submit", *args)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert done.stderr.startswith("tgpu: ")
    assert said in done.stderr
    assert server.submitted() == []


def test_a_flag_behind_the_script_is_the_script_s_and_this_is_said(
    server: FakeTgpu, tgpu: Tgpu, tmp_path: Path
) -> None:
    (tmp_path / "work" / "a.sh").write_text("")
    done = tgpu("submit", "a.sh", "--gpus", "2")
    assert "--gpus stands after the script and goes to it" in done.stderr
    assert "gpu_request" not in server.submitted()[0]


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (Refusal(422, "needs 9 GPUs; the largest node has 8", "never-fits"), 6),
        (Refusal(409, "quota", "quota-exceeded"), 6),
        (Refusal(422, "cwd: no such directory", "invalid-field"), 2),
        (Refusal(403, "not yours", "forbidden"), 5),
        (Refusal(500, "the server made a mistake", "internal"), 1),
    ],
)
def test_a_refusal_is_the_server_s_sentence_and_a_code(
    server: FakeTgpu, tgpu: Tgpu, refusal: Refusal, code: int
) -> None:
    server.fixed["/jobs"] = refusal
    done = tgpu("submit", "--", "a")
    assert (done.returncode, done.stderr) == (code, f"tgpu: {refusal}\n")


INVALID = {"kind": "invalid-field", "field": "x"}


@pytest.mark.parametrize(
    ("args", "detail", "said"),
    [
        (["--time", "0"], "time_limit_s must be at least 1; got 0", "--time must be at least 1; got 0"),
        (["--gpus", "1.5"], "gpu_request must be a fraction", "--gpus must be a fraction"),
        (["--cwd", "/nope"], "cwd: no such directory", "--cwd: no such directory"),
        (["--tenant", "x"], "tenant_id: there is no tenant x", "--tenant: there is no tenant x"),
        (["--where", "ssd"], "node_rules may have at most", "--where may have at most"),
        (["--tolerate", "="], "tolerations must be given as key", "--tolerate must be given as key"),
        (["--resource", "gpu=1"], "generic must not name 'gpu'", "--resource must not name 'gpu'"),
        (["--count", "3", "--cpus", "0"], "jobs[0].cpu_request must be more", "--cpus must be more"),
        (["--count", "3"], "jobs[2] can never run here: too big", "can never run here: too big"),
        (
            ["--cpu-limit", "1"],
            "cpu_limit must be at least cpu_request",
            "--cpu-limit must be at least --cpus",
        ),
        (["--shm-size", "1"], "shm_size_mb: say image, too", "--shm-size: say --image, too"),
        (
            ["--ntasks-per-node", "2"],
            "tasks_per_node needs nodes or tasks: say how many",
            "--ntasks-per-node needs --nodes or --ntasks: say how many",
        ),
        (
            ["--requeue-on-timeout"],
            "requeue_on_timeout needs a time limit (time_limit_s)",
            "--requeue-on-timeout needs a time limit (--time)",
        ),
        (["--grace", "1h"], "grace_s: by the setting max_grace", "--grace: by the setting max_grace"),
        ([], "max_wait_s may be at most 9", "max_wait may be at most 9"),
        ([], "needs 9 GPUs; the largest node has 8", "needs 9 GPUs; the largest node has 8"),
    ],
)
def test_a_refusal_names_the_flag_and_not_the_field(
    server: FakeTgpu, tgpu: Tgpu, *, args: list[str], detail: str, said: str
) -> None:
    server.fixed["/jobs"] = Refusal(422, detail, **INVALID)
    done = tgpu("submit", *args, "--", "a")
    assert (done.returncode, done.stderr) == (2, f"tgpu: {said}\n")


@pytest.mark.parametrize("rule", ["a b", "zone in (a", "gpu-memory >= much", "zone in (a b, !)"])
def test_what_a_wrong_rule_is_answered_with_can_be_pasted(server: FakeTgpu, tgpu: Tgpu, rule: str) -> None:
    done = tgpu("submit", "--where", rule, "--", "a")
    lead = "tgpu: --where takes one rule, so each needs a --where of its own, such as "
    assert (done.returncode, done.stderr[: len(lead)]) == (2, lead)
    assert done.stderr.endswith(f"; got {rule!r}\n")
    pasted = done.stderr[len(lead) :].rpartition("; got")[0]
    typed = subprocess.run(
        ["bash", "-c", f"printf '%s\\n' {pasted}"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert tgpu("submit", *typed, "--", "a").returncode == 0
    rules = ["zone in (a, b)", "zone!=a", "ssd", "!spot", "gpu-memory >= 40"]
    assert server.submitted()[0]["node_rules"] == rules
    assert label_rules("where", rules)


def test_a_refusal_of_a_file_s_job_names_its_place_and_its_key(
    server: FakeTgpu, tgpu: Tgpu, tmp_path: Path
) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text("command: a\n---\ncommand: b\ntime: 0\n")
    server.fixed["/jobs"] = Refusal(422, "jobs[1].time_limit_s must be at least 1; got 0", **INVALID)
    done = tgpu("submit", "-f", str(file))
    assert done.stderr == f"tgpu: job 2 of {file}: time must be at least 1; got 0\n"


def test_of_a_submission_that_breaks_off_it_is_told_what_was_recorded(server: FakeTgpu, tgpu: Tgpu) -> None:
    def then_refuse(job: dict[str, object]) -> None:
        if job["job_id"] == 10_000:
            server.fixed["/jobs"] = Refusal(409, "the quota is used up", "quota-exceeded")

    server.on_submit = then_refuse
    done = tgpu("submit", "--count", "10001", "--no-export-env", "--", "a")
    assert done.stderr == (
        "tgpu: only 10,000 of 10,001 jobs were submitted: 1-10000\ntgpu: the quota is used up\n"
    )
    assert done.returncode == 6


def test_what_this_version_lacks_is_what_the_api_says_it_lacks() -> None:
    assert LATER == JobAsked.LATER


def test_the_examples_are_valid(server: FakeTgpu, tgpu: Tgpu) -> None:
    folder = Path(__file__).parents[2] / "examples"
    assert tgpu("submit", "-f", str(folder / "job.yaml")).stdout == "Submitted 2 jobs: 1-2\n"
    assert tgpu("submit", str(folder / "sleep_job.sh"), "1").stdout == "Submitted job 3\n"
    assert server.jobs[3]["command"] == [str(folder / "sleep_job.sh"), "1"]
    assert tgpu("submit", "-f", str(folder / "kubernetes_job.yaml")).stdout == "Submitted job 4\n"


def test_an_image_may_say_what_runs(server: FakeTgpu, tgpu: Tgpu) -> None:
    assert tgpu("submit", "--image", "bb:1").stdout == "Submitted job 1\n"
    assert server.submitted()[0]["image"] == "bb:1"
    assert server.submitted()[0]["command"] == []


def test_a_snapshot_that_an_image_would_not_see_is_refused(server: FakeTgpu, tgpu: Tgpu) -> None:
    done = tgpu("submit", "--snapshot", "--image", "bb:1")
    assert (done.returncode, server.submitted()) == (2, [])
    assert "with an image, put the code into it, or mount it" in done.stderr


def test_a_size_that_is_none_is_shown_as_it_was_typed(tgpu: Tgpu) -> None:
    done = tgpu("submit", "--memory", "16GG", "--", "true")
    assert done.stderr == "tgpu: --memory must be a size such as 512M or 16G; got '16GG'\n"


def test_a_script_that_calls_a_command_of_slurms_and_would_not_find_it(
    server: FakeTgpu, tgpu: Tgpu, tmp_path: Path
) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH -n 1\n  srun hostname\n")
    said = f"tgpu: {script} line 3: srun is not on PATH: `tgpu slurm install --to DIR` writes it"
    assert tgpu("submit", str(script), PATH="/nowhere").stderr.startswith(said)
    (tmp_path / "srun").touch(0o755)
    assert tgpu("submit", str(script), PATH=str(tmp_path)).stderr == ""
    assert len(server.submitted()) == 2


def _preview(**job: object) -> dict[str, object]:
    told = {
        "name": "train",
        "starts": "at",
        "summary": "Starts in about 2h on n1, behind 4 jobs.",
        "reasons": [{"code": "gpus", "text": "needs 2 GPUs; n1 has 1 free", "data": {}}],
        "advice": {"text": "with --gpus 1 it would start now on n1"},
    }
    return {"jobs": [told | job], "job_count": 1, "warnings": ["beware"], "planned": True}


def test_dry_run_shows_the_plan_and_submits_nothing(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["POST /jobs"] = _preview()
    said = tgpu("submit", "--dry-run", "--gpus", "2", "--", "true").stdout
    assert said == (
        "Starts in about 2h on n1, behind 4 jobs.\n"
        "  needs 2 GPUs; n1 has 1 free\n"
        "  with --gpus 1 it would start now on n1\n"
        "beware\n"
        "Nothing was submitted.\n"
    )
    (request,) = server.asked("POST", "/jobs")
    assert request["query"] == {"dry_run": "true"}
    assert json.loads(tgpu("submit", "--dry-run", "--json", "--", "true").stdout) == _preview()
    assert tgpu("submit", "--dry-run", "-q", "--", "true").stdout == "at\n"


def test_dry_run_of_many_jobs_is_one_request(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["POST /jobs"] = _preview() | {"job_count": 3}
    assert "and 2 more jobs" in tgpu("submit", "--dry-run", "--count", "3", "--", "true").stdout
    (request,) = server.asked("POST", "/jobs")
    assert len(request["body"]["jobs"]) == 3
