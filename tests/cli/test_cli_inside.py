"""`tgpu exec` and `tgpu attach`: what is typed wrong, and the keys that lead out."""

import pytest

from tests.cli.cli_process import Tgpu
from tgpu.cli.detach_keys import DetachKeys, parse
from tgpu.cli.exits import UsageError


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["exec", "42"], "say what to run: tgpu exec 42 -- bash"),
        (["exec", "42", "extra", "--", "ls"], "'extra' before `--` is neither a flag nor the job"),
        (["exec", "42.x", "--", "ls"], "'42.x' names no task: use 42, 42.3, 42.3.1 or last"),
        (["exec", "42.1.1.1", "--", "ls"], "names no task"),
        (["exec", "1-3", "--", "ls"], "one job is wanted here"),
        (["attach", "42.0.1"], "a task has one terminal: say 42 or 42.3, without an attempt"),
        (["attach", "--detach-keys", "ctrl-ä", "42"], "--detach-keys must be keys with commas between them"),
        (["attach", "--detach-keys", "", "42"], "--detach-keys must be keys"),
    ],
)
def test_what_is_typed_wrong_is_told(tgpu: Tgpu, words: list[str], said: str) -> None:
    done = tgpu(*words)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_keys_are_read_as_people_write_them() -> None:
    assert parse("ctrl-p,ctrl-q") == b"\x10\x11"
    assert parse("CTRL-],a,Ctrl-@") == b"\x1da\x00"
    assert parse("none") == b""
    with pytest.raises(UsageError, match="got 'ab'"):
        parse("ab")


@pytest.mark.parametrize(
    ("typed", "passed", "found"),
    [
        ([b"abc"], b"abc", False),
        ([b"ab\x10\x11cd"], b"ab", True),
        ([b"ab\x10", b"\x11"], b"ab", True),
        ([b"\x10", b"x"], b"\x10x", False),
        ([b"\x10", b"\x10", b"\x11"], b"\x10", True),
        ([b"\x10\x10\x11"], b"\x10", True),
    ],
)
def test_keys_that_lead_out_are_kept_from_the_job_and_no_others(
    typed: list[bytes], passed: bytes, found: bool
) -> None:
    keys = DetachKeys(b"\x10\x11")
    assert b"".join(map(keys.pass_on, typed)) == passed
    assert keys.found is found
