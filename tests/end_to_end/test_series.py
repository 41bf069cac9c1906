"""Arrays and parallel jobs on a real node whose server is killed in the midst of them."""

from datetime import datetime
from pathlib import Path
from typing import Any

from tests.end_to_end.whole_tgpu import Installation

OVER = ("completed", "failed", "cancelled")
FAILED = [30, 80, 130, 180, 230, 280]
CANCELLED = [44, *range(200, 221, 4)]


def test_every_index_comes_to_its_own_end_whoever_leads(up: Installation) -> None:
    for name in ("array", "parallel"):
        (up.files / name).mkdir()
    parallel = _submit_parallel_job(up)
    up.wait_until(lambda: up.show(parallel)["failure_count"] == 2, "both have failed once")
    assert "is tried again in" in up.tgpu("why", str(parallel)).stdout
    array, ran = _submit_array(up), up.files / "array"
    up.wait_until(lambda: _times(ran, 56) == 1, "all that may run at once do")  # 40 to 56
    up.tgpu("cancel", f"{array}.44", f"{array}.[200-220:4]")
    up.kill("server")
    up.up()
    assert max(int(each.name) for each in ran.iterdir()) <= 58  # one more, in the place of 44
    (up.files / "gate").touch()
    _check_array(up, up.wait_status(array, *OVER, within_s=60))
    _check_done_again(up, array)
    _check_parallel_job(up, up.wait_status(parallel, *OVER, within_s=40))


def _submit_array(up: Installation) -> int:
    """Every fiftieth fails, and from 40 on each waits for the gate."""
    script = (
        f"echo x >> {up.files}/array/$TGPU_ARRAY_INDEX; echo $TGPU_ARRAY_INDEX of $TGPU_ARRAY_COUNT; "
        f"[ $TGPU_ARRAY_INDEX -lt 40 ] || until [ -e {up.files}/gate ]; do sleep 0.05; done; "
        "exit $((TGPU_ARRAY_INDEX % 50 == 30))"
    )
    return up.submit("--array", "10-290:2%9", "--", "sh", "-c", script)


def _check_array(up: Installation, ended: dict[str, Any]) -> None:
    """Everybody ran once, but for those who were cancelled before it was their turn."""
    job_id = ended["job_id"]
    assert ended["task_counts"] == {"completed": 141 - 7 - 6, "failed": 6, "cancelled": 7}
    expected = {index: int(index not in CANCELLED[1:]) for index in range(10, 291, 2)}
    assert {index: _times(up.files / "array", index) for index in expected} == expected
    with up.client() as client:
        states = {
            status: [task["array_index"] for task in client.tasks(job_id, status=status)]
            for status in ("failed", "cancelled")
        }
    assert states == {"failed": FAILED, "cancelled": CANCELLED}
    assert up.tgpu("logs", f"{job_id}.130").stdout == "130 of 141\n"


def _check_done_again(up: Installation, array: int) -> None:
    """As a new job of those that failed or were cancelled, in which each finds what it found before."""
    again = up.json("retry", str(array))
    assert again["indices"] == ",".join(map(str, sorted([*FAILED, *CANCELLED])))
    up.wait_status(again["job_id"], "failed", within_s=30)
    assert up.tgpu("logs", f"{again['job_id']}.44").stdout == "44 of 141\n"
    assert [_times(up.files / "array", index) for index in (30, 44, 200, 46)] == [2, 2, 1, 1]


def _submit_parallel_job(up: Installation) -> int:
    """Index 1 succeeds at its second try, index 2 at none."""
    here = f"{up.files}/parallel"
    script = (
        f"echo x >> {here}/$JOB_COMPLETION_INDEX; case $JOB_COMPLETION_INDEX in "
        f"1) [ $(wc -l < {here}/1) -gt 1 ];; 2) exit 3;; *) exit 0; esac"
    )
    flags = "--completions 4 --parallelism 2 --completion-mode Indexed --backoff-limit-per-index 1"
    return up.submit(*flags.split(), "--", "sh", "-c", script)


def _check_parallel_job(up: Installation, ended: dict[str, Any]) -> None:
    """The pause before a second try was kept by a server that was not there when it began."""
    assert (ended["status"], ended["task_counts"]) == ("failed", {"completed": 3, "failed": 1})
    assert [_times(up.files / "parallel", index) for index in range(4)] == [1, 2, 2, 1]
    (given_up,) = (task for task in ended["task_list"] if task["status"] == "failed")
    assert (given_up["array_index"], given_up["exit_code"], given_up["attempt_count"]) == (2, 3, 2)
    first, second = (attempt for attempt in ended["attempts"] if attempt["task_index"] == 1)
    pause = datetime.fromisoformat(second["assigned_at"]) - datetime.fromisoformat(first["ended_at"])
    assert pause.total_seconds() >= 10


def _times(folder: Path, index: int) -> int:
    """How often it ran."""
    file = folder / str(index)
    return len(file.read_text().split()) if file.exists() else 0
