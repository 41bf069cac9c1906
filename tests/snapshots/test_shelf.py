"""What a server keeps is what its digest says, each user's by themselves, and no more than it may be."""

import hashlib
import os
import threading
from pathlib import Path

import pytest

from tgpu.store import snapshot_shelf
from tgpu.store.snapshot_shelf import NotThereYetError, Shelf, ShelfFullError, ShelfRefusedError

DATA = bytes(range(256)) * 8


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "snapshots", 1 << 20, 2 << 20)


def test_pieces_come_in_order_and_the_whole_is_checked(shelf: Shelf) -> None:
    digest = digest_of(DATA)
    assert shelf.put("ann", digest, 0, len(DATA), DATA[:1000]) == 1000
    assert not shelf.has("ann", digest)
    with pytest.raises(NotThereYetError) as late:
        shelf.put("ann", digest, 1500, len(DATA), DATA[1500:])
    assert late.value.received == 1000
    assert shelf.put("ann", digest, 1000, len(DATA), DATA[1000:]) == len(DATA)
    assert shelf.has("ann", digest)
    assert shelf.read("ann", digest, 10, 5) == (DATA[10:15], len(DATA))
    assert shelf.put("ann", digest, 0, len(DATA), b"again") == len(DATA), "what is whole stays"


def test_what_is_not_as_its_digest_says_is_not_kept(shelf: Shelf) -> None:
    digest = digest_of(b"something else")
    with pytest.raises(ShelfRefusedError, match="not what its digest says"):
        shelf.put("ann", digest, 0, len(DATA), DATA)
    assert not shelf.has("ann", digest)
    with pytest.raises(ShelfRefusedError, match="more than the 3 bytes"):
        shelf.put("ann", digest, 0, 3, DATA)


def test_nobody_has_anothers(shelf: Shelf) -> None:
    digest = digest_of(DATA)
    shelf.put("ann", digest, 0, len(DATA), DATA)
    assert not shelf.has("bob", digest)
    assert shelf.read("bob", digest, 0, 10) is None


def test_number_of_small_snapshots_of_one_user_is_limited(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_shelf, "MOST_SNAPSHOTS", 2)
    shelf.put("ann", digest_of(b"1"), 0, 1, b"1")
    shelf.put("ann", digest_of(b"22"), 0, 2, b"2")
    with pytest.raises(ShelfRefusedError, match="you have 2 snapshots here already"):
        shelf.put("ann", digest_of(b"3"), 0, 1, b"3")
    shelf.put("ann", digest_of(b"22"), 1, 2, b"2")
    shelf.put("bob", digest_of(b"3"), 0, 1, b"3")


@pytest.mark.parametrize("user", ["..", ".", "a/../../b", "x\n", "É", "corp\\ann"])
def test_whatever_a_user_is_called_it_is_one_folder(shelf: Shelf, tmp_path: Path, user: str) -> None:
    digest = digest_of(DATA)
    shelf.put(user, digest, 0, len(DATA), DATA)
    (kept,) = shelf.kept()
    assert (kept.user, kept.digest) == (user, digest)
    assert [path.name for path in tmp_path.iterdir()] == ["snapshots"]
    assert len(list((tmp_path / "snapshots").iterdir())) == 1


def test_there_is_a_bound_for_one_and_for_all_of_a_user(shelf: Shelf) -> None:
    with pytest.raises(ShelfRefusedError, match="at most 1 MiB here, by the setting snapshot_max_mb"):
        shelf.put("ann", digest_of(DATA), 0, (1 << 20) + 1, DATA)
    first, second = (letter * (1 << 20) for letter in (b"a", b"b"))
    shelf.put("ann", digest_of(first), 0, len(first), first)
    shelf.put("ann", digest_of(second), 0, len(second), second[:-1])  # what is on its way counts, too
    with pytest.raises(ShelfRefusedError, match="your snapshots have 1 MiB here already"):
        shelf.put("ann", digest_of(DATA), 0, len(DATA), DATA)
    shelf.put("ann", digest_of(second), len(second) - 1, len(second), second[-1:])
    with pytest.raises(ShelfRefusedError, match="your snapshots have 2 MiB here already"):
        shelf.put("ann", digest_of(DATA), 0, len(DATA), DATA)
    shelf.put("bob", digest_of(DATA), 0, len(DATA), DATA)


def test_many_who_send_the_same_at_once_all_succeed(shelf: Shelf) -> None:
    failures: list[Exception] = []

    def send() -> None:
        try:
            shelf.put("ann", digest_of(DATA), 0, len(DATA), DATA)
        except Exception as error:  # noqa: BLE001  whatever it is, the test tells
            failures.append(error)

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert shelf.has("ann", digest_of(DATA))


def test_what_nobody_went_on_with_is_removed_after_a_day(tmp_path: Path) -> None:
    now = [1_000_000.0]
    shelf = Shelf(tmp_path, 1 << 20, 1 << 20, now_s=lambda: now[0])
    shelf.put("ann", digest_of(DATA), 0, len(DATA), DATA[:10])
    (half,) = tmp_path.glob("*/*.part")
    os.utime(half, (now[0], now[0]))
    shelf.remove_halves()
    assert half.exists()
    now[0] += 25 * 3600
    shelf.remove_halves()
    assert not half.exists()


def test_shelf_takes_nothing_while_the_disk_has_less_than_its_reserve(tmp_path: Path) -> None:
    shortage: list[str | None] = ["the disk has 1 MiB free"]
    shelf = Shelf(tmp_path / "snapshots", 1 << 20, 2 << 20, shortage=lambda: shortage[0])
    with pytest.raises(ShelfFullError, match="1 MiB free"):
        shelf.put("ann", digest_of(DATA), 0, len(DATA), DATA)
    shortage[0] = None
    assert shelf.put("ann", digest_of(DATA), 0, len(DATA), DATA) == len(DATA)
