"""What a queued job will run is settled when it is submitted: real repositories, real agents, real files."""

import os
import pwd
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.unix_users import USERS, accounts, as_user
from tests.end_to_end.whole_tgpu import Installation
from tgpu.cli.snapshot import archive, tree


def git(folder: Path, *arguments: str) -> str:
    names = ("-c", "user.name=ann", "-c", "user.email=ann@example.org", "-c", "init.defaultBranch=main")
    done = subprocess.run(
        ["git", "-C", str(folder), *names, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(shared: Installation, tmp_path: Path) -> Iterator[Path]:
    """With a commit, a change, a new file and an ignored one, in the folder from which commands are run."""
    files, shared.files = shared.files, tmp_path / "code"
    code = shared.files
    (code / "lib").mkdir(parents=True)
    git(code, "init")
    (code / ".gitignore").write_text("data/\n*.bin\n")
    (code / "train.py").write_text("import lib.model; print(lib.model.NAME)\n")
    (code / "lib" / "model.py").write_text("NAME = 'committed'\n")
    git(code, "add", ".")
    git(code, "commit", "-m", "first")
    (code / "lib" / "model.py").write_text("NAME = 'changed'\n")
    (code / "new.txt").write_text("new\n")
    (code / "data").mkdir()
    (code / "data" / "huge").write_text("not code\n")
    yield code
    shared.files = files


def held(shared: Installation, *arguments: str) -> int:
    """A job that waits until it is released."""
    return shared.submit("--hold", *arguments)


def output(shared: Installation, job_id: int) -> list[str]:
    shared.tgpu("release", str(job_id), check=False)
    done = shared.wait_status(job_id, "completed", "failed")
    assert done["status"] == "completed", done["reason"]
    return shared.tgpu("logs", str(job_id)).stdout.splitlines()


def test_a_queued_job_never_sees_later_edits(shared: Installation, repository: Path) -> None:
    script = "python3 train.py; cat new.txt; ls -A; echo $TGPU_SNAPSHOT; echo $TGPU_SUBMIT_DIR; pwd"
    job_id = held(shared, "--snapshot", "--", "sh", "-c", script)
    (repository / "lib" / "model.py").write_text("NAME = 'edited later'\n")
    (repository / "new.txt").unlink()
    git(repository, "commit", "-am", "second")
    told = shared.show(job_id)
    said = output(shared, job_id)
    assert said[:2] == ["changed", "new"]
    assert said[2:-3] == [".gitignore", "lib", "new.txt", "train.py"]
    digest, submit_dir, cwd = said[-3:]
    assert digest == told["snapshot"]
    assert submit_dir == told["cwd"] == str(repository)
    assert told["snapshot_commit"] == git(repository, "rev-parse", "HEAD~1")
    assert told["snapshot_dirty"] is True
    shared.wait_until(lambda: not Path(cwd).exists(), "the copy is removed with its attempt")
    card = shared.tgpu("show", str(job_id)).stdout
    assert f"commit {told['snapshot_commit'][:12]} with changes of {repository}" in card


def test_a_rerun_is_exact_whatever_became_of_the_code(shared: Installation, repository: Path) -> None:
    flags = ("--snapshot", "--env", "EPOCHS=3", "--gpus", "1", "--name", "mine")
    first = held(shared, *flags, "--", "sh", "-c", "python3 train.py; echo $EPOCHS $CUDA_VISIBLE_DEVICES")
    before = output(shared, first)
    git(repository, "reset", "--hard")
    again = shared.json("rerun", str(first))
    assert output(shared, again["job_id"]) == before
    old, new = shared.show(first), shared.show(again["job_id"])
    same = ("command", "env", "cwd", "name", "gpu_request", "snapshot", "snapshot_root", "snapshot_commit")
    assert {name: new[name] for name in same} == {name: old[name] for name in same}
    changed = shared.json("rerun", str(first), "--time", "1h", "--cpus", "2")
    assert (changed["time_limit_s"], changed["cpu_request"], changed["snapshot"]) == (
        3600,
        2,
        old["snapshot"],
    )
    assert shared.tgpu("submit", "--quiet", "--", "true").returncode == 0
    assert "had no snapshot" in shared.tgpu("rerun", "last").stderr


def test_equal_code_has_one_digest_and_a_clean_tree_says_so(shared: Installation, repository: Path) -> None:
    git(repository, "add", ".")
    git(repository, "commit", "-m", "all of it")
    jobs = [shared.show(held(shared, "--snapshot", "--", "true")) for _ in range(2)]
    os.utime(repository / "train.py", (0, 0))
    jobs.append(shared.show(held(shared, "--snapshot", "--", "true")))
    assert len({job["snapshot"] for job in jobs}) == 1
    assert not any(job["snapshot_dirty"] for job in jobs)


def test_a_script_is_the_copys_and_a_job_stands_where_it_would_in_the_tree(
    shared: Installation, repository: Path
) -> None:
    script = repository / "lib" / "go.sh"
    script.write_text("#!/bin/sh\necho before; basename $(pwd)\n")
    script.chmod(0o755)
    job_id = held(shared, "--snapshot", "--cwd", "lib", "lib/go.sh")
    script.write_text("#!/bin/sh\necho after\n")
    assert output(shared, job_id) == ["before", "lib"]


def test_outside_of_git_a_folder_is_copied_without_what_it_ignores(
    shared: Installation, tmp_path: Path
) -> None:
    folder = tmp_path / "plain"
    (folder / "deep").mkdir(parents=True)
    for name in ("a.py", "b.log", "keep.log", "deep/c.tmp", "deep/d.py"):
        (folder / name).write_text("x")
    (folder / ".gitignore").write_text("*.log\n!keep.log\n")
    (folder / "deep" / ".tgpuignore").write_text("*.tmp\n")
    (folder / "out").symlink_to("/etc/passwd")
    (folder / "in").symlink_to("deep/d.py")
    done = shared.tgpu(
        "submit", "--quiet", "--snapshot", "--cwd", str(folder), "--", "find", ".", "!", "-type", "d"
    )
    assert "not in the snapshot, for they lead out of it: out" in done.stderr
    found = output(shared, int(done.stdout))
    assert sorted(found) == [
        "./.gitignore",
        "./a.py",
        "./deep/.tgpuignore",
        "./deep/d.py",
        "./in",
        "./keep.log",
    ]


def test_what_is_too_large_is_refused_by_name(shared: Installation, repository: Path) -> None:
    (repository / "weights.pt").write_bytes(bytes(2 << 20))
    shared.environ["TGPU_SNAPSHOT_MAX_MB"] = "1"
    try:
        refused = shared.tgpu("submit", "--snapshot", "--", "true", check=False)
        assert refused.returncode == 2
        assert "the largest are weights.pt (2.0 MiB)" in refused.stderr
        shared.environ["TGPU_SNAPSHOTS"] = "auto"
        done = shared.tgpu("submit", "--quiet", "--", "true")
        assert "no snapshot was taken" in done.stderr
        (repository / ".tgpuignore").write_text("*.pt\n")
        assert shared.show(shared.submit("--", "true"))["snapshot"] is not None
        assert shared.show(shared.submit("--no-snapshot", "--", "true"))["snapshot"] is None
    finally:
        del shared.environ["TGPU_SNAPSHOT_MAX_MB"]
        shared.environ.pop("TGPU_SNAPSHOTS", None)


def test_a_copy_survives_the_agent_and_is_removed_by_the_next(up: Installation) -> None:
    gate = up.files / "gate"
    (up.files / "word").write_text("then\n")
    job_id = up.submit(
        "--snapshot", "--", "sh", "-c", f"until test -e {gate}; do sleep 0.05; done; cat word; pwd"
    )
    up.wait_status(job_id, "running")
    (up.files / "word").write_text("now\n")
    up.kill("agent")
    up.up()
    gate.touch()
    word, cwd = output(up, job_id)
    assert word == "then"
    up.wait_until(lambda: not Path(cwd).exists(), "the copy is removed")


def test_output_files_have_the_same_bytes_as_the_log(shared: Installation, tmp_path: Path) -> None:
    job_id = shared.submit(
        *(
            "--cwd",
            str(tmp_path),
            "--name",
            "my/run",
            "--output",
            "logs/%x-%j-%A-%a-%u-%%.out",
            "--error",
            "%N.err",
        ),
        *("--", "sh", "-c", "echo out; echo err >&2"),
    )
    done = shared.wait_status(job_id, "completed")
    user = pwd.getpwuid(os.geteuid()).pw_name
    assert (tmp_path / "logs" / f"my_run-{job_id}-{job_id}-0-{user}-%.out").read_text() == "out\n"
    assert (tmp_path / f"{done['assigned_node_id']}.err").read_text() == "err\n"
    assert shared.tgpu("logs", str(job_id)).stdout == "out\n"


def test_each_task_of_an_array_has_its_own_file(shared: Installation, tmp_path: Path) -> None:
    where = ("--cwd", str(tmp_path))
    job_id = shared.submit(
        *where, "--array", "3-9:3", "--output", "%A_%a.txt", "--", "sh", "-c", "echo $TGPU_ARRAY_INDEX"
    )
    shared.wait_status(job_id, "completed")
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found == {f"{job_id}_{index}.txt": f"{index}\n" for index in (3, 6, 9)}


def test_output_of_a_job_in_a_copy_goes_to_its_directory(shared: Installation, repository: Path) -> None:
    job_id = held(shared, "--snapshot", "--output", "out-%j.txt", "--", "python3", "train.py")
    assert output(shared, job_id) == ["changed"]
    assert (repository / f"out-{job_id}.txt").read_text() == "changed\n"


def test_all_tasks_of_a_gang_run_in_one_code_and_share_a_file(shared: Installation, repository: Path) -> None:
    job_id = held(shared, "--snapshot", "--ntasks", "3", "--output", "all.txt", "--", "python3", "train.py")
    (repository / "train.py").unlink()
    assert output(shared, job_id)
    assert (repository / "all.txt").read_text() == "changed\n" * 3
    for task in range(3):
        assert "changed" in shared.tgpu("logs", f"{job_id}.{task}").stdout


def test_a_live_run_is_of_the_copy_too(shared: Installation, repository: Path) -> None:
    done = shared.tgpu("run", "--snapshot", "--", "sh", "-c", "cat lib/model.py; echo $TGPU_SUBMIT_DIR")
    assert done.stdout.splitlines() == ["NAME = 'changed'", str(repository)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become others")
def test_a_copy_is_its_users_and_nobody_elses(shared: Installation) -> None:
    with accounts():
        ann, bob = USERS
        home = Path(pwd.getpwnam(ann).pw_dir)
        (home / "code").mkdir()
        (home / "code" / "a.txt").write_text("ann's\n")
        packed = archive.pack(tree.plain_tree(home / "code"), 1)
        fields = {"cwd": str(home / "code"), "snapshot": packed.digest}
        client = shared.client()
        script = "cat a.txt; echo more >> a.txt; stat -c %U:%a . ; ls -ld .."
        refused = as_user(bob, lambda: client.submit(script, **fields))
        assert refused["refused"] == 422
        as_user(ann, lambda: client.put_snapshot(packed.digest, packed.file, packed.size))
        assert as_user(bob, lambda: client.submit(script, **fields))["refused"] == 422
        job = as_user(ann, lambda: client.submit(script, **fields))
        said = output(shared, job["job_id"])
        assert said[:2] == ["ann's", f"{ann}:700"]
        assert said[2].startswith("drwx--x---"), "only its user may pass"
