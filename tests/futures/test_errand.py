"""What becomes of a submission's folder and its Futures, by what the server says of its tasks."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from tgpu.futures import parcels
from tgpu.futures.errand import Errand
from tgpu.futures.errors import TaskDied
from tgpu.futures.future import Future

KEY = bytes(32)
COMPLETED = {"status": "completed", "attempt_count": 1}
FAILED = {"status": "failed", "attempt_count": 1, "reason": "killed by signal 9", "cause": "signalled"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / ".tgpu" / "1"
    made.mkdir(parents=True)
    return made


def returned(folder: Path, index: int, value: object) -> None:
    parcels.write_outcome(folder, KEY, index, parcels.Outcome(1, returned=True, value=pickle.dumps([value])))


def silent(_: Future[Any]) -> str:
    return ""


def test_whoever_hears_of_the_last_result_finds_the_folder_gone(folder: Path) -> None:
    futures: list[Future[int]] = [Future(42, index, lambda _: True) for index in range(2)]
    there: list[bool] = []
    for future in futures:
        future.add_done_callback(lambda _: there.append(folder.exists()))
    errand = Errand(folder, KEY, futures, in_chunks=False)
    returned(folder, 0, 7)
    errand.hear(0, COMPLETED, silent)
    errand.hear(1, FAILED, silent)
    assert there == [True, False]
    assert not folder.parent.exists()
    assert futures[0].result() == 7
    with pytest.raises(TaskDied, match=r"task 42\.1 brought no result: killed by signal 9"):
        futures[1].result()
    assert errand.live == {}


def test_a_result_that_another_machine_has_written_may_come_later(folder: Path) -> None:
    future: Future[int] = Future(42, None, lambda _: True)
    errand = Errand(folder, KEY, [future], in_chunks=False)
    errand.hear(0, COMPLETED, silent)
    assert (future.done(), folder.exists(), errand.waits_for_files) == (False, True, True)
    returned(folder, 0, 7)
    errand.hear(0, COMPLETED, silent)
    assert (future.result(), folder.exists()) == (7, False)
