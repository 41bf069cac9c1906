"""A batch script's options as the fields of tgpu's API: layout, precedence, warnings, refusals."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tgpu.dialects.slurm import script
from tgpu.dialects.slurm.flag_table import FLAGS, MEANINGLESS, REFUSED
from tgpu.dialects.slurm.given import gathered
from tgpu.dialects.slurm.options import NONE, OPTIONAL
from tgpu.dialects.slurm.refusal import SlurmError
from tgpu.dialects.slurm.translation import Around, Translated, translated

AROUND = Around(lambda: datetime(2026, 3, 10, 14, 30, tzinfo=UTC), ["cpu", "gpu"], ["default", "lab/vision"])
NOT_ASKED = {"dialect": "slurm", "cpu_request": 1, "output": "slurm-%j.out"}


def job(*words: str, header: str = "", environ: dict[str, str] | None = None) -> Translated:
    text = f"#!/bin/bash\n{header}\necho hi\n"
    given, _ = gathered(script.directives("job.sh", text), environ or {}, words)
    return translated(given, AROUND)


def fields(*words: str, **more: Any) -> dict[str, Any]:
    """But what every job has, and what is only kept for later."""
    found = job(*words, **more).fields
    return {
        key: value for key, value in found.items() if key != "annotations" and NOT_ASKED.get(key) != value
    }


def test_a_job_that_says_nothing() -> None:
    made = job()
    assert made.fields == {**NOT_ASKED, "annotations": {"tasks": "1", "nodes": "1"}}
    assert made.warnings == []


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("-n 8", {"cpu_request": 8}),
        ("-c 4", {"cpu_request": 4}),
        ("-n 4 -c 2", {"cpu_request": 8}),
        ("-N 2", {"nodes": 2}),
        ("-N 2-4", {"nodes": 2}),
        ("-N 2 --ntasks-per-node=4 -c 3", {"nodes": 2, "cpu_request": 12}),
        ("-N 2 -n 5", {"nodes": 2, "cpu_request": 3}),
        ("-n 16 --ntasks-per-node=4", {"nodes": 4, "cpu_request": 4}),
        ("-n 8 -O", {}),
        ("--mincpus=6", {"cpu_request": 6}),
        ("--gres=gpu:2", {"gpu_request": 2}),
        ("--gres=gpu:a100:2", {"gpu_request": 2, "gpu_type": "a100"}),
        ("-N 2 --gres=gpu:8", {"nodes": 2, "gpu_request": 8}),
        ("-G 4", {"gpu_request": 4}),
        ("-N 2 -G 16", {"nodes": 2, "gpu_request": 8}),
        ("-G 16 --gpus-per-node=8", {"nodes": 2, "gpu_request": 8}),
        ("--gpus-per-node=h100:8", {"gpu_request": 8, "gpu_type": "h100"}),
        ("-n 4 --gpus-per-task=1", {"cpu_request": 4, "gpu_request": 4}),
        ("-G 4 --gpus-per-task=1", {"cpu_request": 4, "gpu_request": 4}),
        ("-n 8 --ntasks-per-gpu=2", {"cpu_request": 8, "gpu_request": 4}),
        ("-G 2 --ntasks-per-gpu=4", {"cpu_request": 8, "gpu_request": 2}),
        ("-G 2 --cpus-per-gpu=8", {"cpu_request": 16, "gpu_request": 2}),
        ("--gres=mps:50", {"gpu_request": 0.5}),
        ("--gres=gpu:1,licence:2", {"gpu_request": 1, "generic": {"licence": 2}}),
        ("--tres-per-task=cpu=4,gres/gpu:a100=1", {"cpu_request": 4, "gpu_request": 1, "gpu_type": "a100"}),
        ("--mem=16G", {"mem_request_mb": 16384}),
        ("--mem=0", {"mem_request_mb": 0}),
        ("-n 4 --mem-per-cpu=2G", {"cpu_request": 4, "mem_request_mb": 8192}),
        ("-G 2 --mem-per-gpu=40G", {"gpu_request": 2, "mem_request_mb": 81920}),
        ("--tmp=10G", {"disk_request_mb": 10240}),
        ("--exclusive", {"exclusive": True}),
        ("--exclusive=user", {"exclusive": True}),
        ("-L matlab:2", {"generic": {"matlab": 2}}),
        ("-t 1-12:00:00", {"time_limit_s": 129_600}),
        ("-t 0", {}),
        ("-b now+1hour", {"begin_at": "2026-03-10T15:30:00Z"}),
        ("--deadline=2026-03-11T08:00", {"deadline_at": "2026-03-11T08:00:00Z"}),
        ("-H", {"hold": True}),
        ("-t 60 --signal=USR1@120", {"time_limit_s": 3600, "warn_signal": "USR1", "warn_s": 120}),
        ("-t 2 --signal=B:10", {"time_limit_s": 120, "warn_signal": "USR1", "warn_s": 60, "warn_main": True}),
        ("-t 1 --signal=RB:2@5", {"time_limit_s": 60, "warn_signal": "INT", "warn_s": 5, "warn_main": True}),
        ("-t 1 --signal=USR1@600", {"time_limit_s": 60, "warn_signal": "USR1", "warn_s": 59}),
        ("-J train", {"name": "train"}),
        ("-p gpu", {"pool": "gpu"}),
        ("-p debug,gpu", {"pool": "gpu"}),
        ("-A vision", {"tenant_id": "lab/vision"}),
        ("-q high", {"priority_class": "high"}),
        ("-q normal", {"priority_class": "default"}),
        ("--priority=50", {"priority": 50}),
        ("--nice", {"priority": -100}),
        ("--nice=-5", {"priority": 5}),
        ("-a 0-99%10", {"array": "0-99%10", "output": "slurm-%A_%a.out"}),
        ("-d afterok:4:5,singleton", {"after": ["afterok:4:5", "singleton"]}),
        ("-o out-%j.txt -e err-%j.txt", {"output": "out-%j.txt", "error": "err-%j.txt"}),
        ("--open-mode=append", {"open_mode": "append"}),
        ("--requeue", {"requeue": True}),
        ("--no-requeue", {"requeue": False}),
        ("-N 2 -k", {"nodes": 2, "fail_together": False}),
        ("-w n[1-2]", {"nodes": 2, "node_rules": ["tgpu/node in (n1, n2)"]}),
        ("-x n3", {"node_rules": ["tgpu/node notin (n3)"]}),
        ("-C a100&nvlink", {"node_rules": ["a100", "nvlink"]}),
        ("--uid=bob", {"user_id": "bob"}),
    ],
)  # fmt: skip
def test_what_an_option_becomes(words: str, meant: dict[str, Any]) -> None:
    assert fields(*words.split()) == meant


def test_what_was_said_is_kept_for_the_environment_and_for_answers() -> None:
    made = job(
        "-N", "2", "--ntasks-per-node=4", "-c", "2", "--mem=1500", "-p", "gpu", "--comment=hello there"
    )
    assert made.fields["annotations"] == {
        "partition": "gpu", "comment": "hello there", "cpus-per-task": "2", "ntasks-per-node": "4",
        "mem": "1500M", "tasks": "8", "nodes": "2",
    }  # fmt: skip
    assert made.layout.tasks_per_node == [4, 4]


def test_the_command_line_beats_the_environment_which_beats_the_script() -> None:
    header = "#SBATCH --job-name=of-script\n#SBATCH -c 2\n#SBATCH --mem=1G -t 10"
    environ = {"SBATCH_JOB_NAME": "of-environment", "SBATCH_TIMELIMIT": "20", "SBATCH_REQUEUE": "yes"}
    assert fields("-J", "of-line", header=header, environ=environ) == {
        "name": "of-line", "cpu_request": 2, "mem_request_mb": 1024, "time_limit_s": 1200, "requeue": True,
    }  # fmt: skip
    assert fields(header=header)["name"] == "of-script"
    assert fields("--mem-per-cpu=3G", header=header)["mem_request_mb"] == 6144
    assert fields(environ={"SBATCH_EXCLUSIVE": "", "SBATCH_OVERCOMMIT": "0"}) == {"exclusive": True}
    assert fields("--no-requeue", environ=environ)["requeue"] is False


def test_directives_end_with_the_first_command() -> None:
    header = (
        "\n# a comment\n#SBATCH -J 'two words' # why\n##SBATCH -N 9\n#SBATCHX\n\nmodule load x\n#SBATCH -N 4"
    )
    assert fields(header=header) == {"name": "two words"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--nodes=0", "command line: --nodes must be a number of nodes from 1 to 10000, such as 2; got '0'"),
        ("-n x", "command line: --ntasks must be a whole number from 1 to 10000; got 'x'"),
        ("-t 1-99:99:99", "command line: --time '1-99:99:99' says 99 hours"),
        ("--gres=gpu:a100:2 --gpus-per-task=h100:1", "a job can have GPUs of one model"),
        ("-N 3 -G 4", "command line: --gpus must be as many on each of 3 nodes"),
        ("--mem-per-gpu=4G", "command line: --mem-per-gpu is about GPUs, and the job asks for none"),
        ("-w n1 -N 2", "command line: --nodelist names 1 nodes, and --nodes asks for 2"),
        ("-p huge", "command line: --partition: there is no pool huge; there are cpu, gpu"),
        ("-A nobody", "command line: --account: there is no tenant nobody"),
        ("--container=/x", "command line: --container cannot be had here: OCI bundles are not run"),
        ("-M other", "command line: --clusters cannot be had here"),
        ("--signal=FOO@10", "command line: --signal must be a signal"),
        ("-t 5 --signal=KILL", "command line: --signal cannot be KILL"),
        ("-t 5 --signal=X:USR1", "command line: --signal must be like B:USR1@120"),
        ("--priority=TOP", "command line: --priority must be a whole number; got 'TOP'"),
        ("--open-mode=x", "command line: --open-mode must be append or truncate"),
        ("-C a|b", "command line: --constraint can name features that a node has all of"),
    ],
)
def test_what_cannot_be_had(words: str, said: str) -> None:
    with pytest.raises(SlurmError) as caught:
        job(*words.split())
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("#SBATCH --nodes=2\n#SBATCH --gpu-type=x", "job.sh line 3: --gpu-type is no option of Slurm's"),
        ("#SBATCH -t 1-99:99:99", "job.sh line 2: --time '1-99:99:99' says 99 hours"),
        ("# x\n#SBATCH nodes=2", "job.sh line 3: 'nodes=2' is no option: those begin with - or --"),
        ("#SBATCH -J 'open", "job.sh line 2: no closing quotation: close the quotation"),
        (
            "#SBATCH -N 1\n#SBATCH hetjob\n#SBATCH -N 2",
            "job.sh line 3: jobs of several parts are written as groups",
        ),
        ("#SBATCH --bb=x", "job.sh line 2: --bb cannot be had here"),
        (
            "#SBATCH -N 1\n#SBATCH --gres=gpus:1",
            "job.sh line 3: --gres: GPUs are called gpu: write gpu:1",
        ),
        (
            "#SBATCH --mem=4G\n#SBATCH --mem-per-cpu=1G",
            "job.sh line 3: --mem, --mem-per-cpu and --mem-per-gpu are mutually exclusive: take out --mem",
        ),
    ],
)
def test_an_error_in_a_script_names_its_line(header: str, said: str) -> None:
    with pytest.raises(SlurmError) as caught:
        job(header=header)
    assert said in str(caught.value)


def test_an_error_in_the_environment_names_the_variable() -> None:
    with pytest.raises(SlurmError, match="SBATCH_TIMELIMIT: --time must be a time"):
        job(environ={"SBATCH_TIMELIMIT": "long"})


def test_what_has_no_effect_is_told() -> None:
    made = job("--signal=USR1", "-q", "gold", header="#SBATCH --mail-type=END\n#SBATCH --hint=nomultithread")
    assert made.warnings == [
        "job.sh line 2: --mail-type has no effect: no mail is sent; tgpu wait waits",
        "job.sh line 3: --hint has no effect: where tasks run inside a node is left to the kernel",
        "command line: --signal has no effect without a limit: say --time",
        (
            "command line: --qos=gold has no effect: there are real-time, high, default, low, best-effort "
            "and normal"
        ),
    ]
    assert made.fields["annotations"]["qos"] == "gold"


def test_fewer_tasks_than_nodes() -> None:
    made = job("-N", "4", "-n", "2")
    assert made.warnings == ["command line: 2 tasks cannot be on 4 nodes; takes 2"]
    assert made.fields["nodes"] == 2


def test_every_option_has_the_fate_that_the_table_says() -> None:
    """Those that are refused are, and those without effect are told so."""
    for flag in FLAGS:
        given = f"--{flag.name}" if flag.takes in (NONE, OPTIONAL) else f"--{flag.name}=1"
        if flag.fate == REFUSED:
            with pytest.raises(SlurmError, match=f"--{flag.name} cannot be had here"):
                job(given)
        elif flag.fate == MEANINGLESS:
            assert any(f"--{flag.name} has no effect" in text for text in job(given).warnings), flag.name


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "job.sh is empty"),
        (b"  \n\n", "job.sh is empty"),
        (b"echo hi\n", "job.sh line 1: must be #! and an interpreter, such as #!/bin/bash"),
        (b"#!\necho hi\n", "job.sh line 1: must be #! and an interpreter"),
        (b"\n#!/bin/sh\n", "job.sh line 1: must be #!"),
        (b"#!/bin/sh\r\necho hi\r\n", "job.sh line 1: ends as on Windows"),
        (b"#!/bin/sh\necho hi\r\n", "job.sh line 2: ends as on Windows"),
        (b"#!/bin/sh\necho caf\xe9\n", "job.sh line 2: is not UTF-8"),
        (b"#!/bin/sh\n\0\n", "job.sh is no script: it has NUL characters"),
        (b"#!/bin/sh\n" + b"#" * 200_000, "job.sh is larger than 120 KiB"),
    ],
)
def test_a_script_that_cannot_be_run(data: bytes, said: str) -> None:
    with pytest.raises(SlurmError) as caught:
        script.text_of("job.sh", data)
    assert said in str(caught.value)


def test_which_scripts_speak_to_slurm() -> None:
    assert script.is_one(b"#!/bin/bash\n#SBATCH -N 1\n")
    assert script.is_one(b"#!/bin/bash\r\n#SBATCH -N 1\r\n")
    assert not script.is_one(b"#!/bin/bash\necho\n#SBATCH -N 1\n")
    assert not script.is_one(b"#!/bin/bash\n")
    assert script.interpreter("#!/usr/bin/env -S python3 -u\n") == ["/usr/bin/env", "-S python3 -u"]
