"""`scancel --signal`: who in a job gets it, and that the job goes on."""

import os
import sys
from collections.abc import Iterator

import pytest

from tests.dialects.slurm.slurm_story import Slurm
from tests.end_to_end.whole_tgpu import an_installation
from tgpu.cli.slurm import signal_inside, signalling
from tgpu.cli.slurm.signal_inside import Process
from tgpu.client.terminal import Over
from tgpu.dialects.slurm.refusal import SlurmError

SCRIPT = """#!/bin/bash
#SBATCH -n 2 -o signalled.out
trap 'echo script' USR1
srun bash -c 'trap "echo task; exit 0" USR1; touch up.$SLURM_PROCID; while :; do sleep 0.1; done' &
wait %1
wait %1
echo "srun: $?"
"""


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    with an_installation() as one:
        one.up()
        yield Slurm(one, one.files)


def processes() -> list[Process]:
    """A script, its srun, a task of a step with a child, and something in the background."""
    return [
        Process(10, 1, b"/bin/bash\0/dev/fd/9", [b"SLURM_TASK_PID=10"]),
        Process(11, 10, b"python\0-c\0from tgpu.cli.slurm.main import main", [b"SLURM_TASK_PID=10"]),
        Process(12, 11, b"python\0train.py", [b"SLURM_TASK_PID=10", b"SLURM_STEP_ID=0"]),
        Process(13, 12, b"loader", [b"SLURM_STEP_ID=0"]),
        Process(14, 10, b"monitor", [b"SLURM_TASK_PID=10"]),
    ]


@pytest.mark.parametrize(
    ("which", "pids"),
    [
        (signal_inside.STEPS, [12]),
        (signal_inside.BATCH, [10]),
        (signal_inside.FULL, [10, 12, 13, 14]),
    ],
)
def test_who_is_meant(which: str, pids: list[int]) -> None:
    assert signal_inside.meant(processes(), which) == pids


def test_signals_by_name_and_number() -> None:
    assert [signalling.number_of(text) for text in ("USR1", "sigusr1", "10")] == [10, 10, 10]
    for text in ("FOO", "99", ""):
        with pytest.raises(SlurmError, match="is no signal"):
            signalling.number_of(text)


def test_signal_that_ends_the_job_counts_as_sent() -> None:
    killed = Over(exit_code=None, detail="", lost=False)
    assert signalling._count(1, b"1\n", killed) == 1
    with pytest.raises(SlurmError, match="job 1 could not be sent a signal: no such node"):
        signalling._count(1, b"", Over(exit_code=1, detail="no such node", lost=False))


def test_number_of_receivers_is_printed_before_the_signal_is_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    events: list[object] = []
    monkeypatch.setattr(sys, "argv", ["-c", "10", signal_inside.BATCH])
    monkeypatch.setattr(signal_inside, "descendants", lambda _pid: [10])
    monkeypatch.setattr(signal_inside, "_process", lambda _pid: processes()[0])
    monkeypatch.setattr(os, "kill", lambda *sent: events.extend([capsys.readouterr().out, sent]))
    assert signal_inside.main() == 0
    assert events == ["1\n", (10, 10)]


def test_the_script_and_its_steps_are_reached_apart(slurm: Slurm) -> None:
    (slurm.folder / "signalled.sh").write_text(SCRIPT)
    job_id = int(slurm("sbatch --parsable signalled.sh"))
    slurm.tgpu.wait_until(lambda: len(list(slurm.folder.glob("up.*"))) == 2, "two tasks")
    slurm(f"scancel --batch --signal=USR1 {job_id}")
    slurm.tgpu.wait_until(lambda: slurm.output("signalled.out") == "script\n", "the script's answer")
    slurm(f"scancel -s USR1 {job_id}")
    assert slurm.ended(job_id) == "COMPLETED"
    assert slurm.output("signalled.out") == "script\ntask\ntask\nsrun: 0\n"
    over = slurm.typed(f"scancel -s USR1 {job_id}")
    assert (over.returncode, over.stderr) == (
        1, f"scancel: error: job {job_id} does not run: only what runs can be sent SIGUSR1\n",
    )  # fmt: skip


STOPPABLE = """#!/bin/bash
#SBATCH -o stoppable.out
trap 'echo script' TERM
srun bash -c 'trap "echo task; exit 0" TERM; touch stoppable.up; while :; do sleep 0.1; done'
echo "srun: $?"
"""


def test_sigterm_by_name_is_sent_to_the_steps_alone(slurm: Slurm) -> None:
    (slurm.folder / "stoppable.sh").write_text(STOPPABLE)
    job_id = int(slurm("sbatch --parsable stoppable.sh"))
    slurm.tgpu.wait_until((slurm.folder / "stoppable.up").exists, "the step")
    slurm(f"scancel --signal=TERM {job_id}")
    assert slurm.ended(job_id) == "COMPLETED"
    assert slurm.output("stoppable.out") == "task\nsrun: 0\n"


def test_a_job_without_steps_says_so(slurm: Slurm) -> None:
    job_id = int(slurm("sbatch --parsable --wrap 'sleep 60'"))
    slurm.tgpu.wait_until(lambda: slurm(f"squeue -h -j {job_id} -o %T").strip() == "RUNNING", "its start")
    done = slurm.typed(f"scancel -s USR1 {job_id}")
    assert (done.returncode, "say --batch" in done.stderr) == (0, True)
    slurm(f"scancel {job_id}")


def test_indices_of_an_array_are_reached_one_by_one(slurm: Slurm) -> None:
    script = "trap 'echo heard; exit 0' USR1; touch ready.$SLURM_ARRAY_TASK_ID; while :; do sleep 0.1; done"
    job_id = int(
        slurm(f'sbatch --parsable -a 3,5,7 -o heard-%a.out --wrap "{script.replace("$", chr(92) + "$")}"')
    )
    slurm.tgpu.wait_until(lambda: len(list(slurm.folder.glob("ready.*"))) == 3, "three indices")
    slurm(f"scancel -b -s USR1 {job_id}_[5,7]")
    slurm.tgpu.wait_until(lambda: slurm(f"squeue -h -j {job_id} -o %K").split() == ["3"], "one is left")
    assert [slurm.output(f"heard-{index}.out") for index in (3, 5, 7)] == ["", "heard\n", "heard\n"]
    slurm(f"scancel {job_id}")
