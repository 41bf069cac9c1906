"""What a container is given, what it is kept from, how it ends."""

import os
import pwd
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.docker_engine import IMAGE, tools
from tests.runner.docker.conftest import HUNGRY_CHILDREN, ContainerNode
from tgpu.domain.container import Mount, Pull
from tgpu.domain.lifecycle import Cause
from tgpu.runner.limits import Limits
from tgpu.runner.port import HAD_BEFORE, AttemptEnded, AttemptStarted

NOBODY = pwd.getpwnam("nobody")


def test_a_container_runs_prints_and_tells_how_it_ended(node: ContainerNode) -> None:
    attempt = node.shell("echo out; echo err >&2; exit 3")
    end = node.end_of(attempt)
    assert (end.cause, end.exit_code, end.signal) == (Cause.EXITED, 3, None)
    assert end.started_ms is not None
    assert end.started_ms <= end.ended_ms
    assert node.output(attempt) == b"out\n"
    assert node.output(attempt, "stderr") == b"err\n"
    kinds = [type(event) for event in node.events if event.attempt == attempt]
    assert kinds == [AttemptStarted, AttemptEnded]


def test_what_is_launched_twice_runs_once(node: ContainerNode) -> None:
    attempt = node.shell("echo once")
    node.shell("echo twice", attempt=attempt)
    node.end_of(attempt)
    node.shell("echo thrice", attempt=attempt)
    assert node.output(attempt) == b"once\n"
    node.runner.forget(attempt)
    node.shell("echo again", attempt=attempt)
    assert node.events[-1] == AttemptEnded(attempt, HAD_BEFORE)
    assert len(node.containers()) == 1


def test_bytes_come_as_they_are(node: ContainerNode) -> None:
    attempt = node.shell(r"printf '\000\377\376abc\r\n'; head -c 40000 /dev/zero | tr '\0' x; echo")
    node.end_of(attempt)
    assert node.output(attempt) == b"\x00\xff\xfeabc\r\n" + 40000 * b"x" + b"\n"


def test_a_line_of_a_hundred_megabytes_costs_no_more_than_the_cap(node: ContainerNode) -> None:
    attempt = node.shell("head -c 100000000 /dev/zero | tr '\\0' y; echo; echo last")
    end = node.end_of(attempt, 100)
    assert end.exit_code == 0
    assert node.output(attempt).endswith(b"yyy\nlast\n")
    kept = sum(path.stat().st_size for path in (node.home / "logs" / attempt).iterdir())
    assert kept <= (1 << 20) * 11 // 10  # with the time index


def test_it_is_its_user_and_has_no_rights_beyond(node: ContainerNode) -> None:
    end, text = node.run("id -u; id -g; grep -E 'CapEff|NoNewPrivs' /proc/self/status", user="nobody")
    assert end.exit_code == 0
    assert text.split() == [
        str(NOBODY.pw_uid), str(NOBODY.pw_gid), "CapEff:", 16 * "0", "NoNewPrivs:", "1",
    ]  # fmt: skip
    said = node.inspect(node.events[-1].attempt)["HostConfig"]
    assert (said["Privileged"], said["PidMode"], said["IpcMode"], said["UTSMode"], said["UsernsMode"]) == (
        False, "", "private", "", "",
    )  # fmt: skip


def test_root_in_a_container_is_without_rights_too(node: ContainerNode) -> None:
    _, text = node.run("grep CapEff /proc/self/status; mount -t tmpfs x /data 2>/dev/null || echo no")
    assert text.split() == ["CapEff:", 16 * "0", "no"]


def test_its_environment_is_the_images_and_what_the_job_says(node: ContainerNode) -> None:
    env = {"EPOCHS": "3", "TGPU_ATTEMPT_KEY": "somebody else"}
    attempt = node.launch("env", env=env, gpus=("GPU-simulated-4", "GPU-simulated-6"))
    node.end_of(attempt)
    lines = node.output(attempt).decode().splitlines()
    found = dict(line.split("=", 1) for line in lines)
    keys = [line for line in lines if line.startswith("TGPU_ATTEMPT_KEY=")]
    assert keys == [f"TGPU_ATTEMPT_KEY={node.cluster}:{attempt}"]
    assert found["EPOCHS"] == "3"
    assert found["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert found["NVIDIA_VISIBLE_DEVICES"] == "GPU-simulated-4,GPU-simulated-6"
    assert found["PATH"].startswith("/usr/local/sbin")
    assert (found["USER"], found["HOME"]) == ("root", "/tmp")


def test_without_gpus_it_sees_none_whatever_its_image_or_its_job_says(node: ContainerNode) -> None:
    _, text = node.run(
        "echo $NVIDIA_VISIBLE_DEVICES:$CUDA_VISIBLE_DEVICES",
        env={"NVIDIA_VISIBLE_DEVICES": "all", "CUDA_VISIBLE_DEVICES": "0"},
    )
    assert text == "void:\n"


def test_real_gpus_that_the_engine_cannot_give_are_said_to_be_the_matter(node: ContainerNode) -> None:
    end, _ = node.run("true", gpus=("GPU-5fd4f5e8-2b6d-4b8e-9d4b-1f6f2d3a9c11",))
    assert end.cause is Cause.COULD_NOT_START
    assert "NVIDIA's container toolkit" in end.detail


def test_memory_beyond_the_limit_is_told_as_such(node: ContainerNode) -> None:
    end, _ = node.run("yes | tr -d '\\n' | tail -n 1", limits=Limits(memory_limit_mib=16))
    assert end.cause is Cause.OUT_OF_MEMORY
    assert "16 MiB" in end.detail


def test_out_of_memory_kill_of_a_child_is_reported_and_is_not_the_cause(node: ContainerNode) -> None:
    end, _ = node.run(f"{HUNGRY_CHILDREN}; exit 3", limits=Limits(memory_limit_mib=16))
    assert (end.cause, end.exit_code) == (Cause.EXITED, 3)
    assert end.detail == "out of memory, a process in its container was killed: its limit is 16 MiB"


def test_a_fork_bomb_stays_within_its_processes(node: ContainerNode) -> None:
    script = "i=0; while [ $i -lt 200 ]; do sleep 30 & i=$((i+1)); done 2>/dev/null; echo survived"
    attempt = node.shell(script, limits=Limits(pids=20), time_limit_s=20, grace_s=1)
    node.start_of(attempt)
    node.until(lambda: _pids(node.inspect(attempt)) >= 10 or node.runner.running() == [])
    assert _pids(node.inspect(attempt)) <= 20
    node.runner.stop(attempt, Cause.CANCELLED, "", at_once=True)
    node.end_of(attempt)


def _pids(inspected: dict) -> int:
    pid = inspected["State"]["Pid"]
    path = Path(f"/proc/{pid}/task/{pid}/children")
    found, left = 0, [pid]
    while left and path.exists():
        one = left.pop()
        found += 1
        try:
            left += [int(child) for child in Path(f"/proc/{one}/task/{one}/children").read_text().split()]
        except FileNotFoundError:
            continue
    return found


def test_limits_reach_the_engine(node: ContainerNode) -> None:
    limits = Limits(cpu_milli=1500, cpu_limit_milli=1500, memory_limit_mib=64, pids=99, cpus=(0, 1))
    attempt = node.shell("true", limits=limits, shm_mib=8, network="none")
    node.end_of(attempt)
    said = node.inspect(attempt)["HostConfig"]
    assert (said["NanoCpus"], said["CpuShares"], said["CpusetCpus"]) == (1_500_000_000, 1536, "0,1")
    assert (said["Memory"], said["MemorySwap"], said["PidsLimit"]) == (64 << 20, 64 << 20, 99)
    assert (said["ShmSize"], said["NetworkMode"], said["Init"]) == (8 << 20, "none", True)


def test_where_it_runs_and_whether_the_entry_point_is_asked(node: ContainerNode) -> None:
    changes = quote('ENTRYPOINT ["echo", "entered"]')
    node.engine.ask(
        "POST", f"/images/create?fromSrc=-&repo=entered&tag=1&changes={changes}", tools("entered")
    )
    assert node.run("pwd", image="entered:1")[1] == "entered sh -c pwd\n"
    assert node.run("pwd", image="entered:1", ignores_entrypoint=True, container_cwd="/etc")[1] == "/etc\n"


def test_a_read_only_container_can_write_to_tmp_alone(node: ContainerNode) -> None:
    _, text = node.run("touch /data/x 2>/dev/null || echo no; touch /tmp/x && echo yes", read_only=True)
    assert text.split() == ["no", "yes"]


def test_a_network_that_is_not_allowed_is_refused(node: ContainerNode) -> None:
    end, _ = node.run("true", network="other")
    assert end.cause is Cause.COULD_NOT_START
    assert "allowed are host, none" in end.detail


def test_a_program_that_is_not_in_the_image(node: ContainerNode) -> None:
    attempt = node.launch("nosuch", "--flag")
    end = node.end_of(attempt)
    assert (end.cause, end.exit_code) == (Cause.EXITED, 127)
    assert b"exec nosuch failed: No such file or directory" in node.output(attempt, "stderr")


def test_the_image_says_what_runs_if_the_job_does_not(node: ContainerNode) -> None:
    changes = "CMD%20%5B%22echo%22%2C%22from%20the%20image%22%5D"
    node.engine.ask("POST", f"/images/create?fromImage={IMAGE}")
    made = node.engine.ask("POST", "/containers/create", {"Image": IMAGE, "Cmd": ["true"]})["Id"]
    node.engine.ask("POST", f"/commit?container={made}&repo=speaking&tag=1&changes={changes}", {})
    node.engine.ask("DELETE", f"/containers/{made}")
    attempt = node.launch(image="speaking:1")
    node.end_of(attempt)
    assert node.output(attempt) == b"from the image\n"


def test_an_image_that_is_not_here_and_may_not_be_fetched(node: ContainerNode) -> None:
    end, _ = node.run("true", image="nosuch:1", pull=Pull.NEVER)
    assert (end.cause, end.detail) == (
        Cause.COULD_NOT_START,
        "this node does not have the image nosuch:1, and the job says: --pull never",
    )


# Stopping


def test_it_is_asked_to_leave_first(node: ContainerNode) -> None:
    attempt = node.shell("trap 'echo leaving; exit 0' TERM; echo ready; while :; do sleep 0.1; done")
    node.until_printed(attempt, b"ready")
    node.runner.stop(attempt, Cause.CANCELLED, "by ann")
    end = node.end_of(attempt)
    assert (end.cause, end.detail, end.exit_code) == (Cause.CANCELLED, "by ann", 0)
    assert node.output(attempt) == b"ready\nleaving\n"


def test_who_does_not_leave_is_killed_after_the_grace(node: ContainerNode) -> None:
    attempt = node.shell("trap '' TERM; echo ready; while :; do sleep 1; done", grace_s=1)
    node.until_printed(attempt, b"ready")
    node.runner.stop(attempt, Cause.PREEMPTED, "")
    end = node.end_of(attempt)
    assert (end.cause, end.signal) == (Cause.PREEMPTED, 9)
    assert end.ended_ms - end.started_ms >= 1000


def test_its_time_is_up(node: ContainerNode) -> None:
    attempt = node.shell("sleep 100", time_limit_s=1, grace_s=0)
    end = node.end_of(attempt)
    assert (end.cause, end.detail) == (Cause.TIME_LIMIT, "it ran longer than its limit of 1 s")


def test_who_ends_by_a_signal_of_its_own(node: ContainerNode) -> None:
    end, _ = node.run("kill -SEGV $$")
    assert (end.cause, end.signal, end.exit_code) == (Cause.SIGNALLED, 11, None)


def test_one_that_is_stopped_before_it_starts_never_does(node: ContainerNode) -> None:
    attempt = node.shell("echo no")
    node.runner.stop(attempt, Cause.CANCELLED, "")
    end = node.end_of(attempt)
    assert (end.cause, end.started_ms) == (Cause.CANCELLED, None)
    assert node.containers() == []


# Mounts and secrets


def test_its_directory_is_mounted_where_that_is_allowed(node: ContainerNode) -> None:
    (node.home / "work").mkdir()
    end, text = node.run("pwd; touch made", cwd=f"{node.home}/work")
    assert (end.exit_code, text) == (0, f"{node.home}/work\n")
    assert (node.home / "work" / "made").exists()


def test_a_directory_that_is_not_allowed_is_left_out(node: ContainerNode) -> None:
    _, text = node.run("pwd", cwd="/usr")
    assert text == "/\n"


def test_mounts_as_they_were_asked_for(node: ContainerNode) -> None:
    (node.home / "sets").mkdir()
    (node.home / "sets" / "one").write_text("1")
    mounts = (Mount(f"{node.home}/sets", "/data", read_only=True), Mount(f"{node.home}/sets/one", "/etc/one"))
    _, text = node.run("cat /data/one /etc/one; touch /data/x 2>/dev/null || echo ' no'", mounts=mounts)
    assert text == "11 no\n"


@pytest.mark.parametrize("source", ["/etc", "/usr/bin", "/var/run"])
def test_what_the_node_does_not_allow_is_not_mounted(node: ContainerNode, source: str) -> None:
    end, _ = node.run("true", mounts=(Mount(source, "/data"),))
    assert end.cause is Cause.COULD_NOT_START
    assert f"cannot mount {source}:" in end.detail
    assert "mount_allow" in end.detail


def test_a_link_that_leads_out_is_not_mounted(node: ContainerNode) -> None:
    (node.home / "link").symlink_to("/etc")
    end, _ = node.run("true", mounts=(Mount(f"{node.home}/link", "/data"),))
    assert end.cause is Cause.COULD_NOT_START
    assert "leads to /etc" in end.detail


def test_a_socket_is_not_mounted(node: ContainerNode) -> None:
    node.allow = (str(node.engine.folder),)
    node.close()
    node.open()
    end, _ = node.run("true", mounts=(Mount(str(node.engine.socket), "/data"),))
    assert "neither a directory nor a file" in end.detail


def test_another_users_mounts_are_what_that_user_may_see(node: ContainerNode) -> None:
    for path in (node.home, *node.home.parents):
        if path.stat().st_uid == 0 and not path.stat().st_mode & 0o001:
            path.chmod(path.stat().st_mode | 0o011)
    theirs, secret = node.home / "theirs", node.home / "secret"
    for folder in (theirs, secret / "inner"):
        folder.mkdir(parents=True)
    (secret / "inner").chmod(0o777)
    secret.chmod(0o700)
    os.chown(theirs, NOBODY.pw_uid, NOBODY.pw_gid)
    end, _ = node.run("touch /data/made", user="nobody", mounts=(Mount(str(theirs), "/data"),))
    assert end.exit_code == 0
    assert (theirs / "made").stat().st_uid == NOBODY.pw_uid
    end, _ = node.run("true", user="nobody", mounts=(Mount(str(secret / "inner"), "/data"),))
    assert end.cause is Cause.COULD_NOT_START
    assert "Permission denied" in end.detail
    assert list((node.home / "records" / "mounts").iterdir()) == []


def test_secrets_from_files_are_read_as_the_user(node: ContainerNode) -> None:
    key = node.home / "key"
    key.write_text("s3cret\n")
    _, text = node.run("echo $KEY", secret_env={"KEY": f"file:{key}"})
    assert text == "s3cret\n"
    key.chmod(0o600)
    end, _ = node.run("echo $KEY", user="nobody", secret_env={"KEY": f"file:{key}"})
    assert end.cause is Cause.COULD_NOT_START
    assert "for KEY" in end.detail
