"""When a GPU is ill, what for, and when it is given out again."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tgpu.agent.inventory.faults import NAME, Faults
from tgpu.agent.inventory.gpus import GpuProcess, GpuUse, Reported, Sight
from tgpu.agent.inventory.health import BLAMED_S, REPLACED, Health, Limits
from tgpu.agent.inventory.patience import SILENT, PatientGpus
from tgpu.domain.node import Device

GPU = Device(0, "GPU-0", "A100", 81920)
WELL = Sight(GPU)
LIMITS = Limits(recovery_s=60, too_hot_c=90, ecc_errors=2)
AGAIN = "it is given out again when it has been well for 1m"
FELL_OFF = "Xid 79: it has fallen off the bus; it needs a reset"


@pytest.fixture
def health(tmp_path: Path) -> Health:
    return Health(LIMITS, Faults(tmp_path, "this boot"))


def state(device: Device) -> tuple[bool, bool, str]:
    return device.healthy, device.lost, device.note


@pytest.mark.parametrize(
    ("sight", "lost", "note"),
    [
        (replace(WELL, trouble="GPU is lost", is_lost=True), True, "GPU is lost"),
        (replace(WELL, trouble="driver/library version mismatch"), False, "driver/library version mismatch"),
        (replace(WELL, temperature_c=90), False, "it is at 90 °C or more"),
        (
            replace(WELL, ecc_uncorrected=3),
            True,
            "its memory has had more than 2 errors that could not be corrected",
        ),
        (replace(WELL, remap_failed=True), False, "bad rows of its memory can no longer be replaced"),
        (replace(WELL, asks_for="a reset"), True, "the driver asks for a reset"),
    ],
)
def test_what_was_seen_is_told_and_it_returns_when_it_was_well_for_a_while(
    health: Health, sight: Sight, lost: bool, note: str
) -> None:
    assert state(health.judged(WELL, 0)) == (True, False, "")
    for now in (10, 15, 20):
        assert state(health.judged(sight, now)) == (False, lost, note)
    for now in (25, 79.9):
        assert state(health.judged(WELL, now)) == (False, False, f"{note}; {AGAIN}")
    assert health.judged(WELL, 80) == GPU


@pytest.mark.parametrize(
    "sight",
    [
        replace(WELL, temperature_c=89),
        replace(WELL, ecc_uncorrected=2),
        replace(WELL, asks_for=""),
        replace(WELL, processes=(GpuProcess(1, 80000),)),
    ],
)
def test_what_is_within_the_limits_is_well(health: Health, sight: Sight) -> None:
    assert health.judged(sight, 0) == GPU


def test_a_row_that_is_to_be_replaced_is_a_note_and_nothing_more(health: Health) -> None:
    assert state(health.judged(replace(WELL, remap_pending=True), 0)) == (True, False, REPLACED)


def test_trouble_that_comes_again_makes_it_wait_anew(health: Health) -> None:
    hot = replace(WELL, temperature_c=99)
    health.judged(hot, 0)
    health.judged(WELL, 50)
    health.judged(hot, 55)
    assert not health.judged(WELL, 100).healthy
    assert health.judged(WELL, 115).healthy


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 63, 92, 109, 154])
def test_a_programs_own_errors_and_information_change_nothing(health: Health, xid: int) -> None:
    health.reported(Reported("GPU-0", xid), 0)
    assert health.judged(WELL, 0) == GPU
    assert health.blamed("GPU-0", 0) is None


def test_an_error_that_passes_keeps_it_out_for_a_while_and_what_runs_there_goes_on(health: Health) -> None:
    health.reported(Reported("GPU-0", 94), 0)
    contained = "Xid 94: a memory error that was contained to one program"
    assert state(health.judged(WELL, 1)) == (False, False, f"{contained}; {AGAIN}")
    assert health.judged(WELL, 60) == GPU


@pytest.mark.parametrize("xid", [48, 64, 74, 79, 95, 119])
def test_without_the_drivers_word_an_error_that_needs_a_reset_does_not_pass(
    health: Health, xid: int, tmp_path: Path
) -> None:
    health.reported(Reported("GPU-0", xid), 0)
    for now in (1, 1000, 1_000_000):
        judged = health.judged(WELL, now)
        assert (judged.healthy, judged.lost) == (False, True)
        assert judged.note.startswith(f"Xid {xid}: ")
        assert judged.note.endswith("; it needs a reset")
    assert health.judged(replace(WELL, device=replace(GPU, uuid="GPU-1")), 1).healthy
    (tmp_path / NAME).unlink()  # somebody says that it is well
    assert state(health.judged(WELL, 1_000_001))[:2] == (False, False)
    assert health.judged(WELL, 1_000_060) == GPU


def test_by_the_drivers_word_it_returns_when_nothing_was_asked_for_a_while(health: Health) -> None:
    health.reported(Reported("GPU-0", 79), 0)
    asks, calm = replace(WELL, asks_for="a reset"), replace(WELL, asks_for="")
    assert health.judged(calm, 0).note == FELL_OFF, "the driver's word may come later than the Xid"
    assert health.judged(asks, 30).note == FELL_OFF
    assert health.judged(calm, 60).note == FELL_OFF
    assert not health.judged(calm, 119).healthy
    assert health.judged(calm, 120) == GPU
    assert health.judged(WELL, 121) == GPU, "it is forgotten"


def test_a_reset_that_is_needed_is_remembered_by_the_next_agent_but_not_after_a_restart_of_the_machine(
    tmp_path: Path,
) -> None:
    Health(LIMITS, Faults(tmp_path, "this boot")).reported(Reported("GPU-0", 79), 0)
    assert Health(LIMITS, Faults(tmp_path, "this boot")).judged(WELL, 0).note == FELL_OFF
    assert Health(LIMITS, Faults(tmp_path, "next boot")).judged(WELL, 0) == GPU


@pytest.mark.parametrize("text", ["", "[]", '{"boot_id": "this boot"}', '{"boot_id": 1, "faults": 2}'])
def test_a_record_that_cannot_be_read_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    assert Health(LIMITS, Faults(tmp_path, "this boot")).judged(WELL, 0) == GPU


def test_where_nothing_can_be_written_a_fault_is_known_for_as_long_as_the_agent_lives(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    health = Health(LIMITS, Faults(tmp_path / "file" / "folder", "this boot"))
    health.reported(Reported("GPU-0", 79), 0)
    assert health.judged(WELL, 1000).note == FELL_OFF


def test_what_fails_just_after_its_gpu_failed_by_that(health: Health) -> None:
    health.reported(Reported("GPU-0", 94), 100)
    assert health.blamed("GPU-0", 101) == "Xid 94: a memory error that was contained to one program"
    assert health.blamed("GPU-1", 101) is None
    assert health.blamed("GPU-0", 100 + BLAMED_S) is None
    health.judged(replace(WELL, trouble="GPU is lost", is_lost=True), 200)
    assert health.blamed("GPU-0", 201) == "GPU is lost"


class _Slow:
    """A source that answers when it is told to."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.asked = 0

    def look(self) -> tuple[Sight, ...]:
        self.asked += 1
        self.may_answer.wait()
        return (WELL,)

    def use(self, indices: Sequence[int]) -> list[GpuUse | None]:
        self.may_answer.wait()
        return [GpuUse(50, 1000) for _ in indices]

    def reported(self) -> list[Reported]:
        return []


def test_a_driver_that_hangs_makes_nobody_wait_and_is_not_asked_again_meanwhile() -> None:
    slow = _Slow()
    gpus = PatientGpus(slow, patience_s=0.05)
    assert gpus.look() == (WELL,)
    slow.may_answer.clear()
    for _ in range(3):
        assert gpus.look() == (replace(WELL, trouble=SILENT),)
        assert gpus.use([0]) == [None]
    assert slow.asked == 3
    slow.may_answer.set()
    wait_until(lambda: gpus.look() == (WELL,))
    assert gpus.use([0]) == [GpuUse(50, 1000)]


def wait_until(is_so: Callable[[], bool]) -> None:
    for _ in range(200):
        if is_so():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not come to pass")
