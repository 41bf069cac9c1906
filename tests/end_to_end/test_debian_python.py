"""The processes that tgpu starts, on Debian's own Python."""

from pathlib import Path

from tests.debian_python import make_environment
from tests.end_to_end.whole_tgpu import an_installation


def test_jobs_and_snapshots_run_on_debians_own_python(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "venv")
    with an_installation([str(python), "-m", "tgpu"]) as one:
        one.up()
        (one.files / "word").write_text("then\n")
        job = one.submit("--snapshot", "--", "sh", "-c", "cat word; exit 3")
        (one.files / "word").write_text("now\n")
        shown = one.wait_status(job, "completed", "failed", within_s=60)
        assert (shown["exit_code"], shown["reason"]) == (3, "exit code 3")
        assert one.tgpu("logs", str(job)).stdout == "then\n"
        agent = Path(f"/proc/{one.pid('agent')}/cmdline").read_text().split("\0")
        assert Path(agent[0]).parent.parent == tmp_path / "venv", "the agent runs on another Python"
        one.tgpu("down")
