"""Archives that somebody made with malice: nothing of them lands outside, and the reason is told."""

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.runner.conftest import ME
from tgpu.agent import snapshot_unpack


def member(name: str, data: bytes = b"", **changes: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in changes.items():
        setattr(info, key, value)
    return info, data


def unpack(
    folder: Path, *members: tuple[tarfile.TarInfo, bytes], most_bytes: int = 1 << 20, most_files: int = 100
) -> subprocess.CompletedProcess[str]:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return run(folder, packed.getvalue(), most_bytes, most_files)


def run(folder: Path, data: bytes, most_bytes: int, most_files: int) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    program = [
        sys.executable,
        "-I",
        snapshot_unpack.__file__,
        ME,
        "deep/er",
        str(most_bytes),
        str(most_files),
    ]
    with (folder.parent / "archive").open("w+b") as archive:
        archive.write(data)
        archive.seek(0)
        return subprocess.run(program, stdin=archive, capture_output=True, text=True, check=False, cwd=folder)


def test_files_links_and_the_place_to_stand_are_there(tmp_path: Path) -> None:
    link = member("sub/link", type=tarfile.SYMTYPE, linkname="../a.sh")
    done = unpack(tmp_path / "copy", member("a.sh", b"hi", mode=0o755), member("sub/b", b"b"), link)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "copy" / "a.sh").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "copy" / "sub" / "link").read_text() == "hi"
    assert (tmp_path / "copy" / "deep" / "er").is_dir()


@pytest.mark.parametrize(
    "evil",
    [
        [member("../out", b"x")],
        [member("a/../../out", b"x")],
        [member("link", type=tarfile.SYMTYPE, linkname="/etc")],
        [member("link", type=tarfile.SYMTYPE, linkname="../..")],
        [member("link", type=tarfile.SYMTYPE, linkname=".."), member("link/out", b"x")],
        [member("hard", type=tarfile.LNKTYPE, linkname="../archive")],
        [member("pipe", type=tarfile.FIFOTYPE)],
        [member("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)],
    ],
    ids=["up", "up-later", "absolute-link", "link-up", "through-a-link", "hard-link", "pipe", "device"],
)
def test_what_leads_out_is_refused(tmp_path: Path, evil: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    done = unpack(tmp_path / "copy", *evil)
    assert done.returncode == 3
    assert done.stderr.strip()
    assert not (tmp_path / "out").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "copy"]


def test_an_absolute_name_lands_inside(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    assert unpack(tmp_path / "copy", member(str(outside), b"x")).returncode == 0
    assert not outside.exists()


def test_nobody_gets_a_program_with_anothers_rights(tmp_path: Path) -> None:
    unpack(tmp_path / "copy", member("su", b"x", mode=0o6755, uid=0, gid=0))
    assert (tmp_path / "copy" / "su").stat().st_mode & 0o7000 == 0


def test_bombs_are_bounded(tmp_path: Path) -> None:
    large = unpack(tmp_path / "copy", member("zeros", bytes(3 << 20)))
    assert "more than 1 MiB of files (snapshot_max_mb)" in large.stderr
    many = unpack(tmp_path / "copy", *(member(f"f{number}") for number in range(101)))
    assert "more than 100 files" in many.stderr


@pytest.mark.parametrize("data", [b"", b"no archive", b"\x1f\x8b\x08\x00"])
def test_what_is_no_archive_is_told(tmp_path: Path, data: bytes) -> None:
    done = run(tmp_path / "copy", data, 1 << 20, 10)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
