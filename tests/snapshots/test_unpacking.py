"""Hostile archives: nothing of them lands outside, memory stays bounded, and the reason is reported."""

import gzip
import io
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.debian_python import DEBIAN_PYTHON, needs_debian_python
from tests.runner.conftest import ME
from tgpu.agent import snapshot_unpack

SRC = str(Path(snapshot_unpack.__file__).parents[2])
MODULE = snapshot_unpack.__name__
PEAK = (
    "import atexit; from pathlib import Path; "
    "atexit.register(lambda: print(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0]))"
)
"""The most memory that the program had, in KiB; `ru_maxrss` would count what its parent had before `exec`."""


def member(name: str, data: bytes = b"", **changes: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in changes.items():
        setattr(info, key, value)
    return info, data


def unpack(
    folder: Path,
    *members: tuple[tarfile.TarInfo, bytes],
    most_bytes: int = 1 << 20,
    most_files: int = 100,
    python: str = sys.executable,
    form: int = tarfile.GNU_FORMAT,
) -> subprocess.CompletedProcess[str]:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", format=form) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return run(folder, packed.getvalue(), most_bytes, most_files, python)


def run(
    folder: Path, data: bytes, most_bytes: int, most_files: int, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    found = f"import runpy, sys; sys.path.append({SRC!r})"
    program = [
        python,
        "-I",
        "-c",
        f"{PEAK}; {found}; runpy.run_module({MODULE!r}, run_name='__main__')",
        ME,
        "deep/er",
        str(most_bytes),
        str(most_files),
    ]
    with (folder.parent / "archive").open("w+b") as archive:
        archive.write(data)
        archive.seek(0)
        return subprocess.run(program, stdin=archive, capture_output=True, text=True, check=False, cwd=folder)


@pytest.mark.parametrize("python", [sys.executable, DEBIAN_PYTHON], ids=["own", "debian"])
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_files_links_and_the_place_to_stand_are_there(tmp_path: Path, python: str, form: int) -> None:
    needs_debian_python(python)
    deep = "/".join(["d" * 60] * 3) + "/file"
    done = unpack(
        tmp_path / "copy",
        member("a.sh", b"hi", mode=0o755, mtime=77),
        member("sub", type=tarfile.DIRTYPE),
        member("sub/b", b"b" * 1000),
        member("sub/link", type=tarfile.SYMTYPE, linkname="../a.sh"),
        member("hard", type=tarfile.LNKTYPE, linkname="sub/b"),
        member(deep, b"deep"),
        member("sub/b", b"again"),
        member("sub/gr\u00fc\u00df", b"x"),
        python=python,
        form=form,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = (tmp_path / "copy" / "a.sh").stat()
    assert (found.st_mode & 0o777, found.st_mtime) == (0o755, 77)
    assert (tmp_path / "copy" / "sub" / "b").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "copy" / deep).read_text() == "deep"
    assert (tmp_path / "copy" / "hard").read_bytes() == b"b" * 1000
    assert (tmp_path / "copy" / "sub" / "b").read_text() == "again"
    assert (tmp_path / "copy" / "sub" / "gr\u00fc\u00df").exists()
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
        [member("hard", type=tarfile.LNKTYPE, linkname=".")],
        [member("pipe", type=tarfile.FIFOTYPE)],
        [member("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)],
    ],
    ids=[
        "up",
        "up-later",
        "absolute-link",
        "link-up",
        "through-a-link",
        "hard-link",
        "hard-link-to-none",
        "pipe",
        "device",
    ],
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


def long_name(size: int) -> Iterator[bytes]:
    """A header that announces a name of that size, and the name."""
    head = tarfile.TarInfo("././@LongLink")
    head.type, head.size = tarfile.GNUTYPE_LONGNAME, size
    yield head.tobuf(tarfile.GNU_FORMAT)
    for _ in range(size >> 20):
        yield b"a" * (1 << 20)


def pax_header(size: int) -> Iterator[bytes]:
    head = tarfile.TarInfo("./PaxHeaders")
    head.type, head.size = tarfile.XHDTYPE, size
    yield head.tobuf(tarfile.USTAR_FORMAT)
    yield f"{size} comment=".encode()
    for _ in range(size >> 20):
        yield b"a" * (1 << 20)


@pytest.mark.parametrize("header", [long_name, pax_header])
def test_large_header_is_refused_without_taking_memory(
    tmp_path: Path, header: Callable[[int], Iterator[bytes]]
) -> None:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1) as file:
        file.writelines(header(64 << 20))
    done = run(tmp_path / "copy", packed.getvalue(), 1 << 20, 10)
    assert done.returncode == 3
    assert "it has a header of 67,108,864 bytes; at most 16,384 are read" in done.stderr
    assert int(done.stdout) <= 48 << 10


def test_sparse_files_names_without_end_and_towers_of_folders_are_refused(tmp_path: Path) -> None:
    sparse = unpack(tmp_path / "copy", member("s", type=tarfile.GNUTYPE_SPARSE))
    assert "a sparse file" in sparse.stderr
    of_pax = member("s", pax_headers={"GNU.sparse.major": "1", "GNU.sparse.name": "s"})
    assert "a sparse file" in unpack(tmp_path / "copy", of_pax, form=tarfile.PAX_FORMAT).stderr
    assert "a name of more than 4096 bytes" in unpack(tmp_path / "copy", member("n/" * 3000)).stderr
    assert "more than 100 files" in unpack(tmp_path / "copy", member("t/" * 200)).stderr


def test_limits_hold_for_the_process_itself() -> None:
    """Whatever the reader overlooks, the kernel does not."""
    code = (
        "import resource, runpy; found = runpy.run_path(__import__('sys').argv[1]); found['_limit'](1000);"
        "print(*(resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_FSIZE)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, snapshot_unpack.__file__], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(256 << 20), "1000"]


@pytest.mark.parametrize("data", [b"", b"no archive", b"\x1f\x8b\x08\x00"])
def test_what_is_no_archive_is_told(tmp_path: Path, data: bytes) -> None:
    done = run(tmp_path / "copy", data, 1 << 20, 10)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
