"""Secrets on command lines: taken out of the process list, or refused with the new form."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tgpu.cli import node_flags, secret_flags
from tgpu.cli.arguments import command_parser
from tgpu.cli.exits import UsageError

URL = "postgresql://tgpu:hunter2@127.0.0.1:1/tgpu"


def test_password_of_an_old_command_line_is_not_in_the_process_list(tmp_path: Path) -> None:
    """The server waits for its store, which is away."""
    with subprocess.Popen(
        [sys.executable, "-m", "tgpu.cli", "server", "--store", URL, "--listen=off"],
        env={**os.environ, "TGPU_HOME": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            shown = Path(f"/proc/{process.pid}/cmdline").read_text()
            assert "--store @FILE" in said
            assert "or set TGPU_STORE" in said
            assert "hunter2" not in said + shown
            assert shown.endswith("\0--listen=off\0"), "the rest of it stays"
        finally:
            process.kill()


@pytest.mark.parametrize("word", ["postgresql://tgpu@db/tgpu", "sqlite:///x.db"])
def test_store_without_a_password_needs_no_warning(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert secret_flags.StoreFlag("--store")(word) == word
    assert not capsys.readouterr().err


def test_file_of_a_store_is_found_from_every_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    parser = command_parser("server", "")
    node_flags.add_server_flags(parser)
    args = parser.parse_args(["--store", "@store"])
    assert node_flags.overrides(args) == {"store": f"@{tmp_path}/store"}


def test_join_token_in_the_command_line_is_refused_with_the_new_forms() -> None:
    with pytest.raises(UsageError) as caught:
        secret_flags.join_token("tgpujoin_secret")
    for words in ("--join @FILE", "--join -", "TGPU_JOIN_TOKEN", "join-tokens revoke"):
        assert words in str(caught.value)
    assert "tgpujoin_secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["TGPU_JOIN_TOKEN", "TGPU_JOIN"])
def test_join_token_is_taken_out_of_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "tgpujoin_secret")
    assert secret_flags.join_token(None) == "tgpujoin_secret"
    assert name not in os.environ
    assert secret_flags.join_token(None) is None


def test_join_token_comes_from_a_file_or_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TGPU_JOIN_TOKEN", "not this one")
    assert secret_flags.join_token("@token") == "@token"
    assert "TGPU_JOIN_TOKEN" not in os.environ
    monkeypatch.setattr(sys, "stdin", io.StringIO("tgpujoin_secret\n"))
    assert secret_flags.join_token("-") == "tgpujoin_secret"
    with pytest.raises(UsageError, match="no token on stdin"):
        secret_flags.join_token("-")


def test_labels_and_taints_of_a_node_are_flags() -> None:
    parser = command_parser("agent", "")
    node_flags.add_node_flags(parser)
    args = parser.parse_args(["--label", "zone=a", "--label", "ssd=yes", "--taint", "team=vision:NoSchedule"])
    assert node_flags.overrides(args) == {
        "node_labels": ("zone=a", "ssd=yes"),
        "node_taints": ("team=vision:NoSchedule",),
    }
