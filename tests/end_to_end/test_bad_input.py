"""Bad input gets one clear line, the right exit code, and changes nothing."""

import socket
from collections.abc import Iterator

import pytest

from tests.end_to_end.whole_tgpu import Installation

REFUSED = [
    (("--gpus", "0.0001", "--", "true"), "at most 3 decimals"),
    (("--gpus", "-1", "--", "true"), "negative"),
    (("--gpus", "1.5", "--", "true"), "0.5 or 2"),
    (("--gpus", "9", "--", "true"), "can never run here: it asks for 9 GPUs, the largest node has 8"),
    (("--gpus", "1000000000000000000", "--", "true"), "may be at most"),
    (("--cpus", "0", "--", "true"), "more than 0"),
    (("--cpus", "1000", "--", "true"), "can never run here"),
    (("--memory", "999999999T", "--", "true"), "at most"),
    (("--class", "urgent", "--", "true"), "real-time"),
    (("--priority", "99999999999", "--", "true"), "priority"),
    (("--time", "1-99:99:99", "--", "true"), "duration"),
    (("--cwd", "/does/not/exist", "--", "true"), "/does/not/exist"),
    (("--gpu-type", "H900", "--gpus", "1", "--", "true"), "H900"),
    (("--env", "NOEQUALS", "--", "true"), "NOEQUALS"),
    (("--", ""), "empty"),
    ((), "nothing to run"),
]


@pytest.fixture
def unmoved(shared: Installation) -> Iterator[Installation]:
    """Nothing that is asked of it makes a job."""

    def jobs() -> list[int]:
        with shared.client() as client:
            return [job["job_id"] for job in client.jobs()]

    before = jobs()
    yield shared
    assert jobs() == before


@pytest.mark.parametrize(("arguments", "says"), REFUSED, ids=[" ".join(a) or "nothing" for a, _ in REFUSED])
def test_a_bad_submission_is_refused_in_one_line(
    unmoved: Installation, arguments: tuple[str, ...], says: str
) -> None:
    done = unmoved.tgpu("submit", *arguments, check=False)
    assert done.returncode in (2, 6), done
    assert done.stderr.startswith("tgpu: ")
    assert done.stderr.count("\n") == 1
    assert says.lower() in done.stderr.lower()


@pytest.mark.parametrize("command", ["show", "logs", "why", "cancel", "wait"])
def test_an_unknown_job_is_said_to_be_unknown(shared: Installation, command: str) -> None:
    done = shared.tgpu(command, "424242", check=False)
    assert done.returncode == 4
    assert "no job 424242" in done.stderr


def test_an_environment_of_ten_megabytes_is_refused(unmoved: Installation) -> None:
    big = unmoved.files / "big.yaml"
    big.write_text("command: 'true'\nenv:\n  BIG: " + "x" * 10_000_000 + "\n")
    done = unmoved.tgpu("submit", "-f", str(big), check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "body",
    [
        b'{"command": "a\\u0000b"}',
        b'{"command": ["tr\xff\xfeue"]}',
        b'{"command": "true", "gpus": 1}',
        b'{"command": []}',
        b'{"command": "true"',
        b"[]",
        b"",
    ],
)
def test_what_no_command_line_would_send_is_refused_as_a_problem(unmoved: Installation, body: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(str(unmoved.home / "run" / "tgpu.sock"))
        raw.settimeout(10)
        head = f"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        raw.sendall(head.encode() + b"Connection: close\r\n\r\n" + body)
        answer = b""
        while part := raw.recv(65536):
            answer += part
    status = int(answer.split(b" ", 2)[1])
    assert status in (400, 422)
    assert b"application/problem+json" in answer


def test_cancelling_what_has_ended_says_how_it_ended(shared: Installation) -> None:
    job_id = shared.submit("--", "true")
    shared.wait_status(job_id, "completed")
    done = shared.tgpu("cancel", str(job_id), check=False)
    assert done.returncode == 6
    assert "completed" in done.stderr
    assert shared.status(job_id) == "completed"
