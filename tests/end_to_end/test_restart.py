"""Kill -9 of anything, in any state: jobs run on, are adopted, end truly, and never run twice."""

import itertools

import pytest

from tests.end_to_end.whole_tgpu import Installation, after

PARTS = [("server",), ("agent",), ("server", "agent")]


@pytest.mark.parametrize("parts", PARTS, ids="+".join)
def test_a_running_job_survives_and_its_true_exit_code_arrives(
    up: Installation, parts: tuple[str, ...]
) -> None:
    starts, gate = up.files / "starts", up.files / "gate"
    job_id = up.submit("--gpus", "3", *after(gate, "echo done; exit 7", first=f"echo x >> {starts}"))
    waiting = up.sleeper("--gpus", "8")
    up.wait_status(job_id, "running")
    up.kill(*parts)
    up.up()
    gate.touch()
    ended = up.wait_status(job_id, "failed")
    assert (ended["exit_code"], ended["cause"], len(ended["attempts"])) == (7, "exited", 1)
    assert starts.read_text() == "x\n"
    assert up.tgpu("logs", str(job_id)).stdout == "done\n"
    up.wait_status(waiting, "running")


@pytest.mark.parametrize("parts", PARTS, ids="+".join)
def test_a_job_that_ends_while_nobody_looks_is_recorded_truly(
    up: Installation, parts: tuple[str, ...]
) -> None:
    mark = up.files / "over"
    job_id = up.submit("--", "sh", "-c", f"sleep 0.8; touch {mark}; exit 3")
    up.wait_status(job_id, "running")
    up.kill(*parts)
    up.wait_until(mark.exists, "the job ended")
    up.up()
    assert up.wait_status(job_id, "failed")["exit_code"] == 3


def test_crashes_in_the_midst_of_a_crowd_lose_nothing_and_run_nothing_twice(up: Installation) -> None:
    starts = up.files / "starts"
    starts.mkdir()
    up.tgpu(
        "submit",
        "--count",
        "150",
        "--cpus",
        "1",
        "--",
        "sh",
        "-c",
        f"echo x >> {starts}/$TGPU_JOB_ID; sleep 0.1",
    )
    for parts in itertools.islice(itertools.cycle(PARTS), 4):
        up.kill(*parts)
        up.up()
    with up.client() as client:
        up.wait_until(lambda: len(list(client.jobs(status="completed"))) == 150, "all completed", within_s=60)
    counts = [path.read_text().count("x") for path in starts.iterdir()]
    assert counts == [1] * 150


def test_an_acknowledged_job_is_there_after_a_crash_at_once(up: Installation) -> None:
    ids = [up.submit("--gpus", "8", "--", "sleep", "60") for _ in range(3)]
    up.kill("server", "agent")
    up.up()
    assert {job["job_id"] for job in up.json("list")} >= set(ids)


def test_a_cancel_that_was_acknowledged_is_carried_out_after_a_crash(up: Installation) -> None:
    running = up.sleeper("--gpus", "8")
    waiting = up.sleeper("--gpus", "8")
    up.wait_status(running, "running")
    up.kill("agent")
    up.tgpu("cancel", str(running), str(waiting))
    up.kill("server")
    up.up()
    up.wait_status(running, "cancelled")
    up.wait_status(waiting, "cancelled")


def test_tasks_that_died_with_the_machine_are_tried_again_or_failed_as_they_asked(up: Installation) -> None:
    again = up.submit("--gpus", "1", "--", "sh", "-c", "test $TGPU_ATTEMPT -gt 1 || sleep 300")
    once = up.submit("--gpus", "1", "--no-requeue", "--", "sleep", "300")
    up.wait_status(again, "running")
    up.wait_status(once, "running")
    up.kill("agent", "server")
    up.pretend_reboot()
    up.up()
    done = up.wait_status(again, "completed")
    assert [attempt["cause"] for attempt in done["attempts"]] == ["rebooted", "exited"]
    failed = up.wait_status(once, "failed")
    assert failed["cause"] == "rebooted"
    assert "restarted" in failed["reason"]
