"""The frame around all commands: help, errors, exit codes, start-up."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_tgpu import FakeTgpu, Refusal, a_job

from tests.cli.cli_process import TGPU, Tgpu
from tgpu.cli.catalogue import COMMANDS
from tgpu.cli.commands.completion import whole_parser
from tgpu.cli.fields import CLASSES
from tgpu.cli.node_flags import POLICIES
from tgpu.core.policy import ORDERS
from tgpu.domain.priority import PriorityClass

HEAVY = {
    "asyncio", "dataclasses", "http.client", "inspect", "starlette", "logging", "msgspec", "numpy", "pathlib",
    "rich", "shtab", "shutil", "sqlalchemy", "ssl", "subprocess", "typing", "urllib.parse", "yaml",
}  # fmt: skip


def test_without_arguments_it_prints_help_with_the_exit_codes(tgpu: Tgpu) -> None:
    bare, asked = tgpu(), tgpu("--help")
    assert bare.stdout == asked.stdout
    assert (bare.returncode, bare.stderr) == (0, "")
    for part in (
        *COMMANDS,
        "exit codes:",
        "3  the server cannot be reached",
        "last-1",
        "130 if it was",
        "152 if it ran",
    ):
        assert part in bare.stdout


def test_every_command_explains_itself(tgpu: Tgpu) -> None:
    assert "--simulate-gpus" in tgpu("up", "--help").stdout
    for name, parser in whole_parser()._subparsers._group_actions[0].choices.items():
        assert parser.format_usage().startswith(f"usage: tgpu {name}")


def test_the_version_is_the_package_s(tgpu: Tgpu) -> None:
    assert tgpu("--version").stdout == "tgpu 0.1.0\n"
    named = subprocess.run(
        [sys.executable, "-m", "tgpu", "--version"], capture_output=True, text=True, check=True
    )
    assert named.stdout == "tgpu 0.1.0\n"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["lst"], "there is no command 'lst'; did you mean 'list'?"),
        (["bogus"], "there is no command 'bogus' (see `tgpu --help`)"),
        (["frobnicate"], "there is no command 'frobnicate' (see `tgpu --help`)"),
        (["--json"], "there is no option --json before the command (see `tgpu --help`)"),
        (["list", "--nope"], "unrecognized arguments: --nope (see `tgpu list --help`)"),
        (
            ["list", "--limit", "x"],
            "argument --limit: must be a whole number from 0; got 'x' (see `tgpu list --help`)",
        ),
        (["drain", "n1"], "there is no `tgpu drain`; did you mean `tgpu nodes drain`?"),
        (["nodes", "resume", "n1"], "there is no `tgpu nodes resume`; did you mean `tgpu nodes undrain`?"),
        (
            ["windows", "remove", "3"],
            "there is no `tgpu windows remove`; did you mean `tgpu windows cancel`?",
        ),
        (
            ["nodes", "n1"],
            "there is no `tgpu nodes n1` (see `tgpu nodes --help`); of a node: `tgpu nodes show n1`",
        ),
        (["nodes", "drain", "n1", "--x"], "unrecognized arguments: --x (see `tgpu nodes drain --help`)"),
        (["windows", "cancel", "1", "--x"], "unrecognized arguments: --x (see `tgpu windows cancel --help`)"),
        (["promote"], "the following arguments are required: --to (see `tgpu promote --help`)"),
        (
            ["up", "--policy", "x"],
            "there is no policy 'x'; take one of drf, fair-tree, priority, fifo",
        ),
    ],
)
def test_a_slip_is_told_in_one_line(tgpu: Tgpu, args: list[str], said: str) -> None:
    done = tgpu(*args)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"tgpu: {said}\n")


@pytest.mark.parametrize("command", ["list", "nodes", "queues", "stats", "history", "show", "why", "logs"])
def test_without_a_server_every_command_says_how_to_start_one(
    tgpu: Tgpu, tmp_path: Path, command: str
) -> None:
    done = tgpu(command)
    said = f"tgpu: no server at {tmp_path}/home/run/tgpu.sock: start it with `tgpu up`\n"
    assert (done.returncode, done.stdout, done.stderr) == (3, "", said)


def test_what_does_not_exist_ends_with_4(server: FakeTgpu, tgpu: Tgpu) -> None:
    assert server.running
    for command in ("show", "cancel", "wait", "logs", "why"):
        assert tgpu(command, "99").returncode == 4, command
    done = tgpu("show", "last")
    assert (done.returncode, done.stderr) == (4, "tgpu: you have submitted no job yet\n")


def test_without_a_token_it_says_where_to_get_one(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/stats"] = Refusal(401, "send a token: `Authorization: Bearer …`", "unauthenticated")
    done = tgpu("stats")
    assert done.returncode == 5
    assert "set TGPU_TOKEN" in done.stderr


def test_a_token_that_is_wrong_is_said_to_be(server: FakeTgpu, tgpu: Tgpu) -> None:
    said = "this token is not known here, or was revoked; make a new one"
    server.fixed["/stats"] = Refusal(401, said, "unauthorized")
    done = tgpu("stats")
    assert (done.returncode, done.stderr.startswith(f"tgpu: {said} with `tgpu token create`")) == (5, True)


def test_refusals_name_commands_and_not_paths(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.fixed["/stats"] = Refusal(404, "there is no tenant 'x'; GET /tenants lists them", "not-found")
    assert tgpu("stats").stderr == "tgpu: there is no tenant 'x'; `tgpu tenants` lists them\n"


def test_a_reader_that_leaves_early_is_no_error(server: FakeTgpu, environ: dict[str, str]) -> None:
    server.jobs = {n: a_job(n) for n in range(1, 3000)}
    line = f"{' '.join(TGPU)} list --limit 0 | head -1"
    done = subprocess.run(
        ["sh", "-c", line], env=environ, capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout.startswith("  ID")
    assert done.stderr == ""


@pytest.mark.parametrize("command", ["list", "list --json", "list --quiet", "list --help", "--help"])
@pytest.mark.parametrize(
    ("where", "why"), [("> /dev/full", "No space left on device"), (">&-", "Bad file descriptor")]
)
def test_output_that_cannot_be_written_is_an_error_of_one_line(
    server: FakeTgpu, environ: dict[str, str], command: str, where: str, why: str
) -> None:
    server.jobs = {1: a_job(1)}
    line = f"{' '.join(TGPU)} {command} {where}"
    done = subprocess.run(
        ["sh", "-c", line], env=environ, capture_output=True, text=True, check=False, timeout=20
    )
    assert (done.returncode, done.stderr) == (1, f"tgpu: cannot write the output: {why}\n")


def test_streams_that_are_closed_do_not_stop_a_command(server: FakeTgpu, environ: dict[str, str]) -> None:
    server.jobs = {1: a_job(1)}
    line = f"{' '.join(TGPU)} list --quiet 2>&- <&-"
    done = subprocess.run(
        ["sh", "-c", line], env=environ, capture_output=True, text=True, check=False, timeout=20
    )
    assert (done.returncode, done.stdout) == (0, "1\n")


def test_list_imports_nothing_heavy(server: FakeTgpu, environ: dict[str, str]) -> None:
    server.jobs = {1: a_job(1)}
    program = (
        "import sys, json; from tgpu.cli.main import main; main(['list', *sys.argv[1:]]); "
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    for flags in ([], ["--json"]):
        done = subprocess.run(
            [sys.executable, "-c", program, *flags],
            env=environ,
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
        loaded = set(json.loads(done.stderr))
        assert loaded & HEAVY == set()
        assert loaded & {"tgpu.domain", "tgpu.config.settings"} == set()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_completion_knows_commands_and_flags(tgpu: Tgpu, shell: str) -> None:
    done = tgpu("completion", shell)
    assert done.returncode == 0, done.stderr
    for word in ("submit", "gpu-type", "completion"):
        assert word in done.stdout


def test_completion_knows_the_values_of_flags(tgpu: Tgpu) -> None:
    script = tgpu("completion", "bash").stdout
    for flag, values in (("submit --class", CLASSES), ("up --policy", POLICIES)):
        asked = f"COMP_WORDS=(tgpu {flag} ''); COMP_CWORD=3; _shtab_tgpu; echo ${{COMPREPLY[@]}}"
        done = subprocess.run(
            ["bash", "-s"], input=f"{script}\n{asked}", capture_output=True, text=True, check=True, timeout=20
        )
        assert done.stdout.split() == list(values)
    assert set(ORDERS) == set(POLICIES)
    assert set(PriorityClass) == set(CLASSES)


def test_what_the_help_says_of_defaults_streams_and_services(tgpu: Tgpu) -> None:
    for command in ("show", "logs", "why"):
        assert "default: last" in " ".join(tgpu(command, "--help").stdout.split())
    for command in ("run", "submit"):
        assert "stdin is /dev/null" in tgpu(command, "--help").stdout
    up = tgpu("up", "--help").stdout
    assert "run/server.log" in up
    assert "dashboard" not in up


def test_a_bash_completion_script_is_valid_bash(tgpu: Tgpu) -> None:
    script = tgpu("completion", "bash").stdout
    subprocess.run(["bash", "-n"], input=script, text=True, check=True, timeout=20)


def test_ctrl_c_ends_with_130_and_no_traceback(server: FakeTgpu, environ: dict[str, str]) -> None:
    server.jobs = {1: a_job(1)}
    process = subprocess.Popen([*TGPU, "wait", "1"], env=environ, stderr=subprocess.PIPE, text=True)
    while not server.asked("GET", "/events"):
        os.sched_yield()
    process.send_signal(2)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")
