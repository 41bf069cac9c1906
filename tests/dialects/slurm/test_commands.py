"""Slurm's commands as scripts and workflow managers call them, on a real agent."""

from collections.abc import Iterator

import pytest

from tests.dialects.slurm.slurm_story import Slurm
from tests.end_to_end.whole_tgpu import an_installation
from tgpu.dialects.slurm.associations import associations, sheet


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    with an_installation() as one:
        one.up()
        yield Slurm(one, one.files)


def test_a_script_is_found_here_although_the_job_runs_elsewhere(slurm: Slurm) -> None:
    (slurm.folder / "elsewhere").mkdir()
    (slurm.folder / "where.sh").write_text("#!/bin/sh\npwd\n")
    job_id = int(slurm("sbatch --parsable -D elsewhere where.sh"))
    assert slurm.ended(job_id) == "COMPLETED"
    assert slurm.output(f"elsewhere/slurm-{job_id}.out") == f"{slurm.folder}/elsewhere\n"
    (slurm.folder / "elsewhere" / "where.sh").write_text("#!/bin/sh\necho theirs\n")
    job_id = int(slurm("sbatch --parsable -D elsewhere where.sh"))
    assert slurm.ended(job_id) == "COMPLETED"
    assert slurm.output(f"elsewhere/slurm-{job_id}.out") == "theirs\n"


def test_indices_are_filled_up_with_zeros_in_names_of_files(slurm: Slurm) -> None:
    job_id = int(slurm("sbatch --parsable -a 7,7,12 -o sweep-%3a.out --wrap 'echo $SLURM_ARRAY_TASK_ID'"))
    assert slurm.ended(job_id).split() == ["COMPLETED"] * 2
    assert slurm.output("sweep-007.out") + slurm.output("sweep-012.out") == "7\n12\n"


def test_a_limit_is_made_longer_and_shorter(slurm: Slurm) -> None:
    job_id = slurm("sbatch --parsable --hold -t 10 --wrap true").strip()
    for change, limit in (
        ("TimeLimit=+5", "15:00"),
        ("TimeLimit=-3", "12:00"),
        ("TimeLimit+=1:00:00", "1:12:00"),
        ("timelimit=20", "20:00"),
    ):
        slurm(f"scontrol update JobId={job_id} {change}")
        assert slurm(f"squeue -h -j {job_id} -o %l").strip() == limit
    refused = slurm.typed(f"scontrol update JobId={job_id} TimeLimit=-30")
    assert (refused.returncode, refused.stderr) == (
        1, f"scontrol: error: TimeLimit: job {job_id} has only 20:00\n",
    )  # fmt: skip
    slurm(f"scancel {job_id}")


@pytest.mark.parametrize("command", ["hold", "release", "update TimeLimit=5 JobId="])
def test_a_job_that_is_not_there_is_told_of_in_the_words_that_scripts_look_for(
    slurm: Slurm, command: str
) -> None:
    done = slurm.typed(f"scontrol {command}{'' if command.endswith('=') else ' '}99999")
    assert (done.returncode, done.stderr) == (
        1, "scontrol: error: Invalid job id specified for job 99999\n",
    )  # fmt: skip


def test_accounts_are_listed_where_they_matter(slurm: Slurm) -> None:
    """As Snakemake asks, which takes no account for one that may not be checked."""
    asked = (
        'sacctmgr -n -s list user "$(id -un)" format=account%256',
        "sshare -U --format Account%256 --noheader",
    )
    assert [slurm(line) for line in asked] == ["", ""]
    slurm.tgpu.tgpu("tenants", "add", "lab")
    slurm.tgpu.tgpu("tenants", "add", "lab/vision")
    for line in asked:
        assert slurm(line).split() == ["default", "lab", "lab/vision", "vision"]
    assert (
        slurm("sacctmgr -nP show assoc where account=vision format=account,cluster,share")
        == "vision|tgpu|1\n"
    )
    assert slurm("sacctmgr show qos -nP format=name").split()[0] == "normal"
    refused = slurm.typed("sacctmgr add account x")
    assert (refused.returncode, "`tgpu tenants`" in refused.stderr) == (1, True)


def test_a_name_that_several_tenants_have_is_not_listed_alone() -> None:
    tenants = [{"tenant_id": name, "weight": 2} for name in ("a", "a/x", "b/x")]
    found = associations(tenants, "ann")
    assert list(sheet("account,user,share").separated(found, "|", header=False, last=False)) == [
        "a|ann|2",
        "a/x|ann|2",
        "b/x|ann|2",
    ]


def test_how_long_ended_jobs_are_listed_can_be_asked(slurm: Slurm) -> None:
    assert "MinJobAge               = 300 sec\n" in slurm("scontrol show config")
