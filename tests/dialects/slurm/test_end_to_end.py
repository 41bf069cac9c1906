"""Ten scripts of the kind that people bring along, and Slurm's commands, on real agents."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dialects.slurm.slurm_story import SCRIPTS, Slurm
from tests.end_to_end.gang_cluster import a_gang_cluster
from tests.end_to_end.whole_tgpu import an_installation


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    with an_installation() as one:
        one.environ["TGPU_NODE_LABELS"] = "intel=yes"
        one.environ["TGPU_CLUSTER_GENERIC"] = "matlab=2"
        one.up()
        yield Slurm(one, one.files)


def test_there_are_ten_scripts() -> None:
    assert len(list(SCRIPTS.glob("*.sh"))) == 10


def test_a_training_on_one_gpu(slurm: Slurm) -> None:
    job_id = slurm.sbatch("train_one_gpu.sh")
    assert slurm.ended(job_id) == "COMPLETED"
    assert slurm.output(f"resnet50-{job_id}.log").splitlines() == [
        f"Job {job_id} (resnet50) on {os.uname().nodename.split('.')[0]}",
        "GPUs: 0 (1)",
        "threads: 4, memory: 2048",
        "rank 0 of 1",
    ]


def test_an_array(slurm: Slurm) -> None:
    (slurm.folder / "parameters.txt").write_text("0.1 16\n0.1 32\n0.01 16\n0.01 32\n")
    job_id = slurm.sbatch("array_sweep.sh")
    assert slurm.ended(job_id).split() == ["COMPLETED"] * 4
    line = f"task 3 of 4 in {job_id}: lr=0.01 batch=16\n"
    assert slurm.output(f"sweep_{job_id}_3.out") == line
    assert slurm.output(f"sweep_{job_id}_3.err") == "warnings of 3\n"
    ids = slurm(f"sacct -j {job_id} -X -n -P -o jobid").split()
    assert ids == [f"{job_id}_{index}" for index in (1, 2, 3, 4)]


def test_ranks_on_a_whole_node(slurm: Slurm) -> None:
    job_id = slurm.sbatch("many_ranks.sh")
    assert slurm.ended(job_id) == "COMPLETED"
    first, *ranks = slurm.output(f"slurm-{job_id}.out").splitlines()
    assert first == "tasks 4 on 1 node(s): 4"
    assert sorted(ranks) == [f"{rank}: rank {rank} local {rank} of 4" for rank in range(4)]


def test_a_gpu_for_each_task(slurm: Slurm) -> None:
    job_id = slurm.sbatch("gpu_per_task.sh")
    assert slurm.ended(job_id) == "COMPLETED"
    said = sorted(slurm.output(f"slurm-{job_id}.out").splitlines())
    assert said == ["rank=0 world=2 gpu=0", "rank=1 world=2 gpu=1"]


def test_steps_take_turns(slurm: Slurm) -> None:
    job_id = slurm.sbatch("background_steps.sh")
    assert slurm.ended(job_id) == "COMPLETED"
    said = slurm.output(f"slurm-{job_id}.out").splitlines()
    assert said[-1] == "all done"
    running = most = 0
    for line in said[:-1]:
        running += 1 if line.startswith("begin") else -1
        most = max(most, running)
    assert (len(said), most) == (9, 2)


_STEPS_WITH_GPUS = """#!/bin/bash
#SBATCH --ntasks=4 --gres=gpu:4 -o %x.txt -J steps
export UNTIL='echo $0: $CUDA_VISIBLE_DEVICES; echo >>began
while [ $(wc -l <began) -lt 4 ]; do sleep 0.05; done'
one() { srun -Q -n1 -N1 "$@" sh -c "$UNTIL" "${!#}" & }
one --exclusive --gres=gpu:1; one --gpus-per-task=1; one --exact --gpus=1; one --gpus-per-node=1; wait
for i in 1 2 3; do one --gpus=2; done; one --exact; wait
srun --gres=gpu:8 true
srun -n8 true
srun -n8 -O --gpus=3 sh -c 'echo many: $CUDA_VISIBLE_DEVICES'
"""


def test_steps_that_name_gpus_have_them_for_themselves(slurm: Slurm) -> None:
    job_id = int(slurm("sbatch --parsable", stdin=_STEPS_WITH_GPUS))
    assert slurm.ended(job_id) == "COMPLETED"
    found: dict[str, list[str]] = {}
    for line in slurm.output("steps.txt").splitlines():
        found.setdefault(line.partition(": ")[0], []).append(line.partition(": ")[2])
    gpus = found["--exact"][0].split(",")
    assert len(gpus) == 4
    single = ("--gres=gpu:1", "--gpus-per-task=1", "--gpus=1", "--gpus-per-node=1")
    assert sorted(found[name][0] for name in single) == gpus
    assert {each in (",".join(gpus[:2]), ",".join(gpus[2:])) for each in found["--gpus=2"]} == {True}
    assert found["many"] == [",".join(gpus[:3])] * 8
    more, too_many = found["srun"]
    start = f"error: Unable to create step for job {job_id}: "
    assert more.startswith(f"{start}Requested node configuration is not available")
    assert too_many.startswith(f"{start}More processors requested than permitted")


_STEPS_OF_STEPS = """#!/bin/bash
#SBATCH --ntasks=4 --cpus-per-task=2 --gpus=4 -o %x.txt -J nested
srun -n1 --gpus=2 bash -c 'for i in 1 2; do srun -Q -n1 --gpus=1 bash -c "$ONE" & done; wait' inner &
srun -n1 bash -c 'srun -Q -n1 --gpus=1 bash -c "$ONE"' none &
srun -n1 --gpus=1 bash -c "$ONE" outer &
wait
srun -Q -n8 sh -c 'echo many: $SLURM_PROCID'
srun -n8 -c2 true
srun --gpus=4 --gpus-per-task=1 sh -c 'echo each: $CUDA_VISIBLE_DEVICES'
"""


def test_steps_in_steps_have_gpus_of_their_own(slurm: Slurm) -> None:
    until = "while [ $(wc -l <nested) -lt 4 ]; do sleep 0.05; done"
    one = f"echo gpus: $CUDA_VISIBLE_DEVICES; echo >>nested; {until}"
    job_id = int(slurm("sbatch --parsable", stdin=_STEPS_OF_STEPS, ONE=one))
    assert slurm.ended(job_id) == "COMPLETED"
    found: dict[str, list[str]] = {}
    for line in slurm.output("nested.txt").splitlines():
        found.setdefault(line.partition(": ")[0], []).append(line.partition(": ")[2])
    assert sorted(",".join(found["gpus"]).split(",")) == sorted(found["each"])
    assert len(set(found["each"])) == 4
    assert sorted(found["many"]) == [str(rank) for rank in range(8)]
    assert "More processors requested than permitted: it asks for 16 CPUs on one node" in found["srun"][0]


_KILLED = """#!/bin/bash
#SBATCH --gpus=1 --ntasks=2 -o %x.txt -J killed
srun -n1 --gpus=1 sh -c 'echo $$ >first; exec sleep 60' &
while [ ! -s first ]; do sleep 0.05; done
kill -9 $!
srun -n1 --gpus=1 sh -c 'readlink /proc/$(cat first)/exe && echo both || echo alone'
"""


def test_whoever_gets_the_gpu_of_a_step_that_was_killed_has_it_alone(slurm: Slurm) -> None:
    assert slurm.ended(int(slurm("sbatch --parsable", stdin=_KILLED))) == "COMPLETED"
    assert "alone" in slurm.output("killed.txt").splitlines()


def test_a_whole_node_has_all_its_cpus_for_steps(slurm: Slurm) -> None:
    script = "#!/bin/sh\n#SBATCH --exclusive -N1 -o whole.txt\nsrun -n8 sh -c 'echo $SLURM_CPUS_ON_NODE'\n"
    assert slurm.ended(int(slurm("sbatch --parsable", stdin=script))) == "COMPLETED"
    assert slurm.output("whole.txt").split() == ["16"] * 8


def test_as_many_tasks_as_there_are_gpus_for_them(slurm: Slurm) -> None:
    show = "sh -c 'echo $SLURM_PROCID of $SLURM_NTASKS: $CUDA_VISIBLE_DEVICES'"
    ranks = [f"{rank} of 3: {rank}" for rank in range(3)]
    assert sorted(slurm(f"srun --gpus=3 --gpus-per-task=1 {show}").splitlines()) == ranks
    script = f"#!/bin/sh\n#SBATCH --gpus=3 --gpus-per-task=1 -o by_gpus.txt\nsrun {show}\n"
    assert slurm.ended(int(slurm("sbatch --parsable", stdin=script))) == "COMPLETED"
    assert sorted(slurm.output("by_gpus.txt").splitlines()) == ranks


def test_a_job_that_is_warned_asks_to_be_requeued(slurm: Slurm) -> None:
    job_id = slurm.sbatch("requeue_before_limit.sh")
    assert slurm.ended(job_id) == "COMPLETED"
    assert slurm.output(f"slurm-{job_id}.out").splitlines() == [
        "start number 0",
        "warned, saving",
        "start number 1",
        "went on from what was saved",
    ]
    assert f"JobId={job_id} " in slurm(f"scontrol show job {job_id}")
    assert "Restarts=1" in slurm(f"scontrol show job {job_id}")


def test_a_pipeline_that_submits_itself(slurm: Slurm) -> None:
    job_id = slurm.sbatch("pipeline.sh")
    assert slurm.ended(job_id) == "COMPLETED"
    assert slurm.ended(job_id + 3) == "COMPLETED"
    assert slurm.output("fitted.txt") == "fitted\n"
    assert not (slurm.folder / "prepared.txt").exists()
    said = f"Submitted batch job {job_id + 3}\nsubmitted {job_id + 1} {job_id + 2}\n"
    assert slurm.output(f"slurm-{job_id}.out") == said


def test_a_script_in_python(slurm: Slurm) -> None:
    (slurm.folder / "in_python.sh").write_bytes((SCRIPTS / "in_python.sh").read_bytes())
    job_id = int(slurm("sbatch --parsable in_python.sh one 'two words'"))
    assert slurm.ended(job_id) == "COMPLETED"
    assert slurm.output(f"slurm-{job_id}.out") == "python 3 args ['one', 'two words']\ncpus 2\n"


def test_what_a_job_gets_of_its_surroundings(slurm: Slurm) -> None:
    (slurm.folder / "elsewhere").mkdir()
    job_id = slurm.sbatch("exported.sh", FROM_CALLER="me", PWD=str(slurm.folder))
    assert slurm.ended(job_id) == "COMPLETED"
    assert slurm.output(f"elsewhere/slurm-{job_id}.out").splitlines() == [
        "epochs=3 data=a,b from=me in=elsewhere",
        f"submitted from {slurm.folder.name}",
    ]
    assert slurm(f"squeue -h -t all -j {job_id} -o %k") == "nightly run\n"


def test_script_finds_the_terminal_type_and_a_whole_node_its_gpus(slurm: Slurm) -> None:
    shown = "echo $TERM $CUDA_VISIBLE_DEVICES"
    job_id = int(slurm(f"sbatch --parsable --exclusive -o whole.txt --wrap '{shown}'", TERM="vt220"))
    assert slurm.ended(job_id) == "COMPLETED"
    all_gpus = ",".join(map(str, range(8)))
    assert slurm.output("whole.txt") == f"vt220 {all_gpus}\n"
    without = int(
        slurm(f"sbatch --parsable --exclusive --gres=none -o none.txt --wrap '{shown}'", TERM="xterm")
    )
    assert slurm.ended(without) == "COMPLETED"
    assert slurm.output("none.txt") == "xterm\n"


@pytest.fixture(scope="module")
def pair() -> Iterator[Slurm]:
    """On two nodes, n1 and n2, of 4 CPUs and 4 GPUs each."""
    with a_gang_cluster() as cluster:
        work = cluster.folder / "work"
        work.mkdir()
        yield Slurm(cluster.server, work)


def test_a_script_on_two_nodes_runs_once_and_its_steps_on_both(pair: Slurm) -> None:
    job_id = pair.sbatch("two_nodes.sh")
    assert pair.ended(job_id) == "COMPLETED"
    first, *rest = pair.output(f"slurm-{job_id}.out").splitlines()
    assert first == "script on n1, 2 nodes, head known"
    assert sorted(line for line in rest if line.startswith("node")) == [
        f"node {rank} is n{rank + 1}: rank {rank} of 2, port 29500, gpus 0,1" for rank in (0, 1)
    ]
    assert "the second rank failed with 1" in rest
    assert pair(f"sacct -j {job_id} -X -n -P -o nnodes,nodelist,exitcode") == "2|n[1-2]|0:0\n"
    assert sorted(pair("srun -N2 sh -c 'echo $SLURMD_NODENAME'").split()) == ["n1", "n2"]
    named = int(pair("sbatch --parsable -w n2 --wrap 'getent hosts $SLURM_JOB_NODELIST'"))
    assert pair.ended(named) == "COMPLETED"
    assert pair(f"sacct -j {named} -X -n -P -o nodelist") == "n2\n"


def test_failed_script_on_two_nodes_has_its_own_exit_code(pair: Slurm) -> None:
    job_id = int(pair("sbatch --parsable -N 2 --wrap 'srun true; exit 3'"))
    assert pair.ended(job_id) == "FAILED"
    assert pair(f"sacct -j {job_id} -X -n -P -o exitcode") == "3:0\n"
    assert "ExitCode=3:0" in pair(f"scontrol show job {job_id}")


def test_a_script_that_is_over_before_its_other_node_has_begun_has_completed(pair: Slurm) -> None:
    job_id = int(pair("sbatch --parsable -N 2 --wrap 'echo quick'"))
    assert pair.ended(job_id, within_s=30) == "COMPLETED"
    assert pair.output(f"slurm-{job_id}.out") == "quick\n"


def test_steps_on_two_nodes_have_their_gpus_for_themselves(pair: Slurm) -> None:
    until = "echo >>began; while [ $(wc -l <began) -lt 4 ]; do sleep 0.05; done"
    script = (
        "#!/bin/bash\n#SBATCH -N2 -n4 --gpus-per-node=2 -o gpus.txt\nfor i in 1 2; do\n"
        f"srun -n2 --gres=gpu:1 sh -c 'echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES; {until}' &\ndone; wait\n"
    )
    assert pair.ended(int(pair("sbatch --parsable", stdin=script))) == "COMPLETED"
    assert sorted(pair.output("gpus.txt").splitlines()) == ["n1 0", "n1 1", "n2 0", "n2 1"]


def test_a_step_goes_to_the_node_that_has_room(pair: Slurm) -> None:
    until = "echo >>placed; while [ $(wc -l <placed) -lt 4 ]; do sleep 0.05; done"
    script = (
        "#!/bin/bash\n#SBATCH -N2 -n4 --gpus-per-node=2 -o room.txt\nfor i in 1 2 3 4; do\n"
        f"srun -n1 --gpus=1 sh -c 'echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES; {until}' &\ndone; wait\n"
        "srun -w n2 -n1 sh -c 'echo $SLURMD_NODENAME'\necho typed | srun -n1 cat\n"
    )
    assert pair.ended(int(pair("sbatch --parsable", stdin=script))) == "COMPLETED"
    *gpus, named, last = pair.output("room.txt").splitlines()
    assert (sorted(gpus), named, last) == (["n1 0", "n1 1", "n2 0", "n2 1"], "n2", "typed")


def test_tasks_that_no_node_can_hold_are_spread(pair: Slurm) -> None:
    assert sorted(pair("srun -n 6 sh -c 'echo $SLURMD_NODENAME'").split()) == ["n1"] * 3 + ["n2"] * 3
    assert len(set(pair("srun -n 4 sh -c 'echo $SLURMD_NODENAME'").split())) == 1
    assert "it asks for 9 CPUs" in pair.typed("sbatch -n 9 --wrap true").stderr


_SAVES = """#!/bin/bash
#SBATCH -N2 -n2 -t 5
srun bash -c 'trap "sleep 0.5; echo $SLURM_PROCID has saved; exit 0" TERM
echo $SLURM_PROCID begins ${SLURM_RESTART_COUNT:-0}; [ "$SLURM_RESTART_COUNT" ] && exit; sleep 60 & wait'
"""


def test_ranks_on_two_nodes_save_before_they_are_requeued_together(pair: Slurm) -> None:
    job_id = int(pair("sbatch --parsable", stdin=_SAVES))
    output = pair.folder / f"slurm-{job_id}.out"
    pair.tgpu.wait_until(lambda: output.exists() and output.read_text().count("begins") == 2, "both run", 20)
    pair(f"scontrol requeue {job_id}")
    assert pair.ended(job_id) == "COMPLETED"
    lines = output.read_text().splitlines()
    assert [sorted(lines[:2]), sorted(lines[2:4]), sorted(lines[4:])] == [
        ["0 begins 0", "1 begins 0"],
        ["0 has saved", "1 has saved"],
        ["0 begins 1", "1 begins 1"],
    ]


def test_tgpu_submits_the_same_script(slurm: Slurm) -> None:
    script = slurm.folder / "train_one_gpu.sh"
    script.write_bytes((SCRIPTS / "train_one_gpu.sh").read_bytes())
    done = slurm.tgpu.tgpu("submit", "--json", "--name", "other", "--gpus", "2", str(script))
    job = json.loads(done.stdout)
    assert (job["name"], job["gpu_request"], job["cpu_request"], job["time_limit_s"]) == ("other", 2, 4, 7200)
    assert job["dialect"] == "slurm"
    assert "train_one_gpu.sh line 12: --mail-type has no effect" in done.stderr
    slurm(f"scancel {job['job_id']}")


def test_jobs_of_tgpus_own_find_no_variables_of_slurm(slurm: Slurm) -> None:
    job_id = slurm.tgpu.submit("--", "sh", "-c", "env | grep -c ^SLURM || true")
    slurm.tgpu.wait_status(job_id, "completed")
    assert slurm.tgpu.tgpu("logs", str(job_id)).stdout == "0\n"


def test_the_queue_as_scripts_read_it(slurm: Slurm) -> None:
    said = slurm("sbatch -J napper -n 2 -t 1:00:00 -c 2 --gres=gpu:1 --wrap 'sleep 60'")
    job_id = int(said.removeprefix("Submitted batch job "))
    slurm.tgpu.wait_status(job_id, "running")
    node = os.uname().nodename.split(".")[0]
    assert slurm(f"squeue -h -j {job_id} -o '%i|%j|%t|%T|%D|%C|%l|%b|%R'") == (
        f"{job_id}|napper|R|RUNNING|1|4|1:00:00|gres:gpu:1|{node}\n"
    )
    assert slurm(f"squeue -j {job_id}").splitlines()[0] == (
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)"
    )
    assert slurm("squeue -h -n napper -O JobID:8,State:.10,NumCPUs:5") == f"{job_id:<8}   RUNNING4    \n"
    assert json.loads(slurm(f"squeue --json -j {job_id}"))["jobs"][0]["job_state"] == "RUNNING"
    assert slurm(f"scontrol -o show job {job_id}").startswith(f"JobId={job_id} JobName=napper UserId=")
    assert "mix" in slurm("sinfo -h -o '%P %t'")
    held = int(slurm("sbatch --parsable -Q -p elsewhere --hold -J later --wrap true"))
    assert slurm(f"squeue -h -j {held} -o '%t %r %o'") == "PD JobHeldUser (null)\n"
    assert slurm("squeue -h -p elsewhere -o %i") == f"{held}\n"
    assert slurm("sinfo -h -p elsewhere -o %D") == "1\n"
    assert "MaxArraySize            = 1000001\n" in slurm("scontrol show config")
    slurm(f"scontrol update JobId={held} TimeLimit=5:00 JobName=renamed")
    assert slurm(f"squeue -h -j {held} -o '%j %l'") == "renamed 5:00\n"
    slurm(f"scontrol release {held}")
    assert slurm.ended(held) == "COMPLETED"
    slurm("scancel -n napper --me -t RUNNING")
    slurm.tgpu.wait_status(job_id, "cancelled")
    assert slurm(f"sacct -j {job_id} -X -n -P -o state,exitcode").startswith(f"CANCELLED by {os.getuid()}|0:")
    assert slurm(f"squeue -h -j {job_id}") == ""


def test_indices_of_an_array_are_told_apart_and_cancelled(slurm: Slurm) -> None:
    job_id = int(slurm("sbatch --parsable -a 0-9%2 -o %j.txt --wrap 'echo $SLURM_JOB_ID; sleep 60'"))
    slurm.tgpu.wait_until(lambda: slurm("squeue -h -t R -o %i").count(f"{job_id}_") == 2, "two run")
    assert slurm(f"squeue -h -t PD -j {job_id} -o '%i %r'") == f"{job_id}_[2-9%2] JobArrayTaskLimit\n"
    assert f"{job_id}_[2-9%2]" in slurm("squeue -h --me -t PD -o %i").split()
    waiting = [f"{job_id}_{index}" for index in range(2, 10)]
    assert set(waiting) <= set(slurm("squeue -h -r -t PENDING -o %i").split())
    assert len(slurm(f"squeue -h -r -j {job_id}").splitlines()) == 10
    assert slurm(f"squeue -h -j {job_id}_7 -o '%i %t'") == f"{job_id}_7 PD\n"
    own = slurm(f"squeue -h -j {job_id}_1 -o %A").strip()
    assert slurm(f"squeue -h -j {own} -o %i") == f"{job_id}_1\n"
    for verb in ("hold", "suspend", "release"):
        done = slurm.typed(f"scontrol {verb} {job_id}_7")
        assert (done.returncode, f"say {job_id}" in done.stderr) == (1, True)
    assert slurm(f"squeue -h -t PD -j {job_id} -o %r") == "JobArrayTaskLimit\n"
    slurm.tgpu.wait_until(lambda: slurm.output(f"{job_id}_1.txt") == f"{own}\n", "its own number", 10)
    slurm(f"scancel {job_id}_[2-5] {job_id}_0")
    slurm.tgpu.wait_until(
        lambda: slurm(f"squeue -h -r -t R -j {job_id} -o %K").split() == ["1", "6"], "0 is over, 6 runs", 30
    )
    slurm(f"scontrol update JobId={job_id} ArrayTaskThrottle=1")
    assert slurm(f"squeue -h -t PD -j {job_id} -o %i") == f"{job_id}_[7-9%1]\n"
    slurm(f"scancel -t PENDING {job_id}")
    slurm.tgpu.wait_until(
        lambda: slurm(f"squeue -h -r -j {job_id} -o %K%t").split() == ["1R", "6R"], "no more", 10
    )
    slurm(f"scancel {job_id}")
    slurm.tgpu.wait_status(job_id, "cancelled")


def test_code_is_copied_if_that_is_the_setting(slurm: Slurm) -> None:
    work = slurm.folder / "project"
    work.mkdir()
    (work / "code").write_text("as it was\n")
    said = slurm(
        "cd project && sbatch --parsable -H -o ../copied.txt --wrap 'cat code'", TGPU_SNAPSHOTS="always"
    )
    (work / "code").write_text("edited since\n")
    slurm(f"scontrol release {said}")
    assert slurm.ended(int(said)) == "COMPLETED"
    assert slurm.output("copied.txt") == "as it was\n"


def test_srun_outside_of_a_job(slurm: Slurm) -> None:
    assert sorted(slurm("srun -n 2 sh -c 'echo $SLURM_PROCID'").split()) == ["0", "1"]
    assert slurm("srun -c 2 sh -c 'echo $SLURM_CPUS_PER_TASK; exit 4'", code=4) == "2\n"


def test_sbatch_waits_if_it_is_asked_to(slurm: Slurm) -> None:
    slurm("sbatch -W --wrap 'exit 5'", code=5)
    said = "$SLURM_JOB_NAME $SLURM_JOB_UID $SLURM_MEM_PER_CPU"
    script = f"#!/bin/sh\n#SBATCH -J piped --mem-per-cpu=9M\necho {said}\n"
    job_id = int(slurm("sbatch --parsable", stdin=script))
    assert slurm.ended(job_id) == "COMPLETED"
    assert slurm.output(f"slurm-{job_id}.out") == f"piped {os.getuid()} 9\n"
    assert slurm(f"sacct -l -P -j {job_id}").startswith("JobID|JobIDRaw|JobName|Partition|MaxVMSize|")
    again = slurm.typed(f"scontrol requeue {job_id}").stderr
    assert again == f"job {job_id} was over: it is tried again as job {job_id + 1}\n"
    assert slurm.ended(job_id + 1) == "COMPLETED"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"echo hi\n", "bad.sh line 1: must be #! and an interpreter, such as #!/bin/bash"),
        (b"#!/bin/sh\r\n#SBATCH -n 1\r\n", "bad.sh line 1: ends as on Windows"),
        (b"#!/bin/sh\n#SBATCH -J caf\xe9\n", "bad.sh line 2: is not UTF-8"),
        (b"#!/bin/sh\n#SBATCH -t 1-99:99:99\n", "bad.sh line 2: --time '1-99:99:99' says 99 hours"),
        (b"#!/bin/sh\n\n#SBATCH --gpu-count=1\n", "bad.sh line 3: --gpu-count is no option of Slurm's"),
    ],
)
def test_a_script_that_is_wrong_is_refused_with_its_line(slurm: Slurm, data: bytes, said: str) -> None:
    (slurm.folder / "bad.sh").write_bytes(data)
    done = slurm.typed("sbatch bad.sh")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"sbatch: error: {said}")
    if b"#SBATCH" in data:
        done = slurm.typed("tgpu submit bad.sh")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"tgpu: {said}")


def test_jobs_that_are_not_there(slurm: Slurm) -> None:
    done = slurm.typed("squeue -j 99999")
    assert (done.returncode, done.stderr) == (
        1,
        "squeue: error: slurm_load_jobs error: Invalid job id specified\n",
    )
    done = slurm.typed("scancel 99999")
    assert done.stderr == "scancel: error: Kill job error on job id 99999: Invalid job id specified\n"
    assert slurm("sacct -n -j 99999") == ""
    assert slurm.typed("scontrol show job x").returncode == 1
    for line in ("scancel ''", "scontrol requeue ''", "scontrol hold ''"):
        assert slurm.typed(line).returncode == 1


def test_launchers_are_not_written_over_something_else(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "srun").write_text("#!/bin/sh\n")
    done = slurm.tgpu.tgpu("slurm", "install", "--to", str(tmp_path), check=False)
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [tmp_path / "srun"])
    slurm.tgpu.tgpu("slurm", "install", "--to", str(tmp_path), "--force")
    assert slurm.typed(f"{tmp_path}/squeue --version").stdout.startswith("slurm ")


def test_commands_start_fast(slurm: Slurm) -> None:
    """Nothing heavy is loaded on the way."""
    heavy = "asyncio dataclasses typing pathlib msgspec numpy yaml subprocess rich argparse"
    code = (
        "import sys; from tgpu.cli.slurm.main import main; main('squeue', ['-h']); "
        f"print([name for name in '{heavy}'.split() if name in sys.modules])"
    )
    said = slurm.typed(f'{sys.executable} -P -c "{code}"')
    assert said.stdout.splitlines()[-1] == "[]"
