"""Expected starts from a real server to the command line, and their score."""

from tests.end_to_end.whole_tgpu import Installation, after


def test_pending_job_is_told_when_it_starts_and_the_estimate_is_scored(installation: Installation) -> None:
    installation.up()
    gate = installation.files / "gate"
    first = installation.submit("--gpus", "8", "--time", "5m", *after(gate, "true"))
    installation.wait_status(first, "running")
    second = installation.submit("--gpus", "8", "--time", "5m", "--", "true")

    def estimated() -> bool:
        with installation.client() as client:
            (job,) = client.jobs(ids=str(second), expected_start=True)
            return job["start_interval"] is not None

    installation.wait_until(estimated, "the pending job has an expected start")
    why = installation.json("why", str(second))
    found = why["start_interval"]
    assert found["earliest"] <= found["expected"] <= found["latest"]
    assert found["basis"] == "time limits"
    assert "expected start" in installation.tgpu("why", str(second)).stdout
    gate.touch()
    installation.wait_status(second, "completed")

    def scored() -> bool:
        return bool(installation.json("stats")["start_estimates"]["count"] == 1)

    installation.wait_until(scored, "the start was compared with its estimate")
    assert "of 1 job started inside" in installation.tgpu("stats").stdout
