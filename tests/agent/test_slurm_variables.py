"""What a task finds in its environment if its job came in Slurm's words."""

import os

from tests.agent.test_environment import launch
from tgpu.agent.slurm_variables import own_host, slurm_variables
from tgpu.domain.dialect import Dialect, DialectName


def slurm(**annotations: str) -> Dialect:
    return Dialect(DialectName.SLURM, {key.replace("_", "-"): value for key, value in annotations.items()})


def test_only_jobs_in_slurms_words_have_any() -> None:
    assert slurm_variables(launch(), {}, "n1") == {}
    assert slurm_variables(launch(dialect=Dialect(DialectName.KUBERNETES)), {}, "n1") == {}


def test_a_plain_job() -> None:
    found = slurm_variables(
        launch(attempt="42.0.1", devices=(), cpu_milli=4000, dialect=slurm(tasks="1", nodes="1")), {}, "n1"
    )
    assert found == {
        "ENVIRONMENT": "BATCH",
        "SLURM_CLUSTER_NAME": "tgpu",
        "SLURM_JOB_ID": "42",
        "SLURM_JOBID": "42",
        "SLURM_JOB_NAME": "train",
        "SLURM_JOB_USER": "ada",
        "SLURM_JOB_PARTITION": "default",
        "SLURM_JOB_QOS": "normal",
        "SLURM_PRIO_PROCESS": "0",
        "SLURM_NODEID": "0",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_GTIDS": "0",
        "SLURMD_NODENAME": "n1",
        "SLURM_TOPOLOGY_ADDR": "n1",
        "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
        "SLURM_NNODES": "1",
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_NODELIST": "n1",
        "SLURM_JOB_NODELIST": "n1",
        "SLURM_CPUS_ON_NODE": "4",
        "SLURM_JOB_CPUS_PER_NODE": "4",
        "SLURM_TASKS_PER_NODE": "1",
    }


def test_what_was_said_is_there_and_what_was_not_is_not() -> None:
    said = slurm(
        ntasks="5", tasks="5", nodes="2", cpus_per_task="2", mem="1G", partition="gpu", account="lab",
        gpus_per_node="2", dependency="afterok:41", submit_dir="/home/ada",
    )  # fmt: skip
    found = slurm_variables(
        launch(attempt="42.0.3", cpu_milli=6000, memory_mib=1024, dialect=said),
        {},
        "n1",
        ["10.0.0.1", "10.0.0.2"],
    )
    expected = {
        "SLURM_NTASKS": "5",
        "SLURM_NPROCS": "5",
        "SLURM_NNODES": "2",
        "SLURM_JOB_NODELIST": "10.0.0.1,10.0.0.2",
        "SLURM_TASKS_PER_NODE": "3,2",
        "SLURM_JOB_CPUS_PER_NODE": "6(x2)",
        "SLURM_CPUS_PER_TASK": "2",
        "SLURM_MEM_PER_NODE": "1024",
        "SLURM_JOB_PARTITION": "gpu",
        "SLURM_JOB_ACCOUNT": "lab",
        "SLURM_GPUS_PER_NODE": "2",
        "SLURM_GPUS_ON_NODE": "2",
        "SLURM_JOB_GPUS": "1,3",
        "SLURM_JOB_DEPENDENCY": "afterok:41",
        "SLURM_SUBMIT_DIR": "/home/ada",
        "SLURM_RESTART_COUNT": "2",
    }
    assert {name: found.get(name) for name in expected} == expected
    assert "SLURM_MEM_PER_CPU" not in found


def test_an_index_of_an_array() -> None:
    own = {"TGPU_ARRAY_INDEX": "6", "TGPU_ARRAY_COUNT": "5", "TGPU_ARRAY_MIN": "2", "TGPU_ARRAY_MAX": "10",
           "TGPU_ARRAY_STEP": "2"}  # fmt: skip
    found = slurm_variables(launch(dialect=slurm()), own, "n1")
    assert found["SLURM_JOB_ID"] == found["SLURM_JOBID"] == "1000042006"
    assert {name: value for name, value in found.items() if "ARRAY" in name} == {
        "SLURM_ARRAY_JOB_ID": "42",
        "SLURM_ARRAY_TASK_ID": "6",
        "SLURM_ARRAY_TASK_COUNT": "5",
        "SLURM_ARRAY_TASK_MIN": "2",
        "SLURM_ARRAY_TASK_MAX": "10",
        "SLURM_ARRAY_TASK_STEP": "2",
    }


def test_a_node_is_reached_by_its_machine_s_name() -> None:
    host = os.uname().nodename
    assert own_host("any-name") == host
    assert own_host(host.split(".", maxsplit=1)[0]) == host.split(".", maxsplit=1)[0]


def test_annotations_that_cannot_be_numbers_do_no_harm() -> None:
    found = slurm_variables(launch(dialect=slurm(nodes="x", tasks="9" * 30)), {}, "n1")
    assert (found["SLURM_NNODES"], found["SLURM_TASKS_PER_NODE"]) == ("1", "1")


def test_a_job_without_a_limit_has_all_cpus_of_its_node() -> None:
    whole = launch(cpu_milli=1000, cpu_limit_milli=0, dialect=slurm(tasks="1", nodes="1"))
    assert slurm_variables(whole, {}, "n1", (), 64_000)["SLURM_CPUS_ON_NODE"] == "64"
    limited = launch(cpu_milli=1000, cpu_limit_milli=1000, dialect=slurm(tasks="1", nodes="1"))
    assert slurm_variables(limited, {}, "n1", (), 64_000)["SLURM_CPUS_ON_NODE"] == "1"


def test_how_many_tasks_is_told_also_if_gpus_say_it() -> None:
    said = slurm(tasks="4", nodes="1", gpus="4", gpus_per_task="1")
    assert slurm_variables(launch(dialect=said), {}, "n1")["SLURM_NTASKS"] == "4"
    said = slurm(tasks="1", nodes="1", gpus_per_task="1")
    assert "SLURM_NTASKS" not in slurm_variables(launch(dialect=said), {}, "n1")
