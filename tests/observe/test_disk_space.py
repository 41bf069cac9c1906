"""Free space compared with a reserve, on a real small filesystem."""

import errno

import pytest

from tests.small_disk import SmallDisk, needs_root, small_disk  # noqa: F401  a fixture
from tgpu.observe.disk_space import MEASURE_EVERY_S, DiskSpace, is_full


@needs_root
def test_shortage_ends_only_when_there_is_clearly_more_than_the_reserve(small_disk: SmallDisk) -> None:  # noqa: F811
    now = 0.0
    disk = DiskSpace(small_disk.path, reserve_mib=2, clock=lambda: now)
    assert disk.shortage() is None
    small_disk.fill(leave=1 << 20)
    assert disk.shortage() is None, "not measured again so soon"
    now += MEASURE_EVERY_S
    assert disk.shortage() == (
        f"the disk that holds {small_disk.path} has 1 MiB free, and needs 2 (setting disk_reserve)"
    )
    small_disk.empty()
    small_disk.fill(leave=(2 << 20) + 4096)
    now += MEASURE_EVERY_S
    assert disk.shortage() is not None, "it would be short again in a moment"
    small_disk.empty()
    now += MEASURE_EVERY_S
    assert disk.shortage() is None


@needs_root
def test_reserve_follows_the_size_of_the_filesystem_unless_it_is_set(small_disk: SmallDisk) -> None:  # noqa: F811
    assert DiskSpace(small_disk.path).reserve_bytes == (8 << 20) // 50
    assert DiskSpace(small_disk.path, reserve_mib=3).reserve_bytes == 3 << 20
    small_disk.fill()
    assert DiskSpace(small_disk.path, reserve_mib=0).shortage() is None
    assert DiskSpace(small_disk.path).shortage() is not None


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (OSError(errno.ENOSPC, ""), True),
        (OSError(errno.EDQUOT, ""), True),
        (OSError(errno.EIO, ""), False),
        (ValueError(), False),
    ],
)
def test_full_disk_and_exhausted_quota_are_recognised(error: Exception, full: bool) -> None:
    assert is_full(error) is full
