"""Times of a real task's output, from its supervisor to the command line."""

import re

from tests.end_to_end.whole_tgpu import Installation

SCRIPT = "; ".join(
    f"echo {word} >&{number}; until test -e $0/{word}; do sleep 0.01; done"
    for word, number in (("one", 1), ("two", 2), ("three", 1))
)


def test_lines_of_both_streams_have_times_in_their_order(shared: Installation) -> None:
    job_id = shared.submit("--", "sh", "-c", SCRIPT, str(shared.files))
    for word in ("one", "two", "three"):
        shared.wait_until(
            lambda word=word: word in _printed(shared, job_id),
            f"{word} is printed",
        )
        (shared.files / word).touch()
    shared.wait_status(job_id, "completed")
    out = shared.tgpu("logs", str(job_id), "--timestamps", "--stdout").stdout.splitlines()
    err = shared.tgpu("logs", str(job_id), "--timestamps", "--stderr").stderr.splitlines()
    assert all(re.match(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z ", line) for line in out + err)
    assert [line.split()[1] for line in sorted(out + err)] == ["one", "two", "three"]


def _printed(installation: Installation, job_id: int) -> str:
    both = installation.tgpu("logs", str(job_id))
    return both.stdout + both.stderr
