"""What Podman says otherwise than Docker, as it was heard from version 4.3."""

from pathlib import Path

from tgpu.runner import logs
from tgpu.runner.docker.engine import EngineRefusedError, is_taken
from tgpu.runner.docker.following import STDOUT, Follower

TAKEN = (
    'container create: creating container storage: the container name "tgpu-c-7.0.1" is already in use by '
    "ad1b359. You have to remove that container to be able to reuse that name: that name is already in use"
)


def test_a_name_that_is_taken_is_told_in_words() -> None:
    assert is_taken(EngineRefusedError(500, TAKEN))
    assert is_taken(EngineRefusedError(409, "Conflict."))
    assert not is_taken(EngineRefusedError(500, "container create: no such thing"))


def frame(data: bytes) -> bytes:
    return bytes((STDOUT, 0, 0, 0)) + len(data).to_bytes(4, "big") + data


def copied(folder: Path, *, forgets_ends: bool) -> bytes:
    follower = Follower(folder, 1 << 20)
    follower.begin_copy(forgets_ends=forgets_ends)
    for piece in (b"1" * 8192, b"1" * 100, b"\n", b"end\n"):
        follower.copied(frame(piece))
    follower.close()
    return logs.read(folder, "stdout", 0, 1 << 20).data


def test_a_long_line_in_pieces_is_one_line(tmp_path: Path) -> None:
    assert copied(tmp_path / "podman", forgets_ends=False) == b"1" * 8292 + b"\nend\n"
    assert copied(tmp_path / "docker", forgets_ends=True).count(b"\n") > 2
