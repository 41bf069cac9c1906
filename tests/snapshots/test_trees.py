"""Which files are code: Git's word is taken, and an archive depends on nothing else."""

import subprocess
import tarfile
from pathlib import Path

import pytest

from tgpu.cli.exits import UsageError
from tgpu.cli.snapshot import archive, tree


def git(folder: Path, *arguments: str) -> None:
    names = ("-c", "user.name=ann", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", "-C", str(folder), *names, *arguments], check=True, capture_output=True)


def committed(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init")
    for name, text in files.items():
        (folder / name).write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-m", "all", "--allow-empty")
    return folder


def test_deleted_files_are_not_there_and_new_ones_are(tmp_path: Path) -> None:
    code = committed(tmp_path / "code", gone="x", kept="x")
    (code / "gone").unlink()
    (code / "näw file\n").write_text("x")
    found = tree.git_tree(code)
    assert found.files == ["kept", "näw file\n"]
    assert found.dirty
    assert found.commit


def test_a_tree_without_a_commit_is_a_tree(tmp_path: Path) -> None:
    git(tmp_path, "init")
    (tmp_path / "a").write_text("x")
    assert tree.git_tree(tmp_path) == tree.Tree(tmp_path, ["a"], None, dirty=True)


def test_submodules_come_along_and_a_worktree_is_a_tree(tmp_path: Path) -> None:
    lib = committed(tmp_path / "lib", inner="x")
    code = committed(tmp_path / "code", outer="x")
    git(code, "submodule", "add", str(lib), "dep")
    git(code, "commit", "-m", "dep")
    (code / "dep" / "new").write_text("x")
    assert tree.git_tree(code).files == [".gitmodules", "dep/inner", "dep/new", "outer"]
    git(code, "worktree", "add", str(tmp_path / "other"))
    assert tree.git_root(tmp_path / "other") == tmp_path / "other"


def test_what_is_no_repository_has_no_root(tmp_path: Path) -> None:
    assert tree.git_root(tmp_path) is None


def test_an_own_list_leaves_out_what_git_has(tmp_path: Path) -> None:
    code = committed(tmp_path / "code", **{"a.py": "x", "b.pt": "x", ".tgpuignore": "*.pt\n"})
    assert tree.git_tree(code).files == [".tgpuignore", "a.py"]


def test_a_list_that_is_no_text_is_told(tmp_path: Path) -> None:
    (tmp_path / ".tgpuignore").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot read"):
        tree.plain_tree(tmp_path)


def test_an_archive_has_nothing_of_whose_or_when(tmp_path: Path) -> None:
    digests = []
    for name, mode in (("one", 0o600), ("two", 0o664)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "b").write_text("b")
        (folder / "a").write_text("a")
        (folder / "a").chmod(mode)
        packed = archive.pack(tree.plain_tree(folder), 1)
        digests.append(packed.digest)
        with tarfile.open(fileobj=packed.file) as tar:
            about = [(info.name, info.mode, info.uid, info.uname, info.mtime) for info in tar]
        assert about == [("a", 0o644, 0, "", 0), ("b", 0o644, 0, "", 0)]
    assert len(set(digests)) == 1
    (tmp_path / "two" / "a").chmod(0o755)
    assert archive.pack(tree.plain_tree(tmp_path / "two"), 1).digest != digests[0]


def test_links_within_stay_links_and_others_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a").write_text("a")
    (tmp_path / "sub" / "good").symlink_to("../a")
    (tmp_path / "sub" / "up").symlink_to("../../a")
    (tmp_path / "absolute").symlink_to("/etc/passwd")
    packed = archive.pack(tree.plain_tree(tmp_path), 1)
    assert packed.left_out == ["absolute", "sub/up"]
    with tarfile.open(fileobj=packed.file) as tar:
        assert tar.getmember("sub/good").linkname == "../a"
