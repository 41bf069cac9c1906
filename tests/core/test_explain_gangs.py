"""Why a gang waits: told to each of its tasks, word by word."""

import pytest

from tests.core.core_story import asks, at, gang, node, picture_of, task
from tests.core.explain_story import class_high, holder, waits, why
from tgpu.core import giving_way
from tgpu.domain.views import Advice, Reason


def test_every_task_of_a_gang_is_told_how_many_places_were_found() -> None:
    running = (task(9, asks(gpus=2), time_limit_s=60), "n1", (0, 1))
    picture = picture_of([node("n1", gpus=2), node("n2", gpus=2)], gang(1, [asks(gpus=1)] * 3), [running])
    for index in range(3):
        assert why(picture, 1, index) == waits(
            1,
            Reason("gang", "needs 3 places together; 2 found", {"needs": 3, "found": 2}),
            holders=(holder(9, 2, (0, 1), remaining_s=60.0),),
            starts_at_ms=at(60),
            estimate="has a reservation: starts ≈ 13:47 UTC on n1 and n2",
            advice=class_high("n1 and n2"),
        )


def test_no_victims_are_searched_for_a_gang_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    running = (task(9, asks(gpus=2), time_limit_s=60), "n1", (0, 1))
    nodes = [node("n1", gpus=2), node("n2", gpus=2)]
    picture = picture_of(nodes, gang(1, [asks(gpus=1)] * 3), [running])
    monkeypatch.setattr(giving_way, "MOST_SEARCHED", 5)
    answer = why(picture, 1)
    assert (answer.advice, [reason.code for reason in answer.reasons]) == (None, ["gang"])
    monkeypatch.setattr(giving_way, "MOST_SEARCHED", 6)
    assert why(picture, 1).advice is not None


def test_a_gang_is_told_its_terms() -> None:
    nodes = [node("n1", gpus=2, labels={"rack": "a"}), node("n2", gpus=2, labels={"rack": "b"})]
    picture = picture_of(nodes, gang(1, [asks(gpus=1)] * 4, per_node=2, topology="rack"))
    text = "needs 4 places together, at most 2 on a node, all on nodes with one value of rack; 2 found"
    assert why(picture, 1) == waits(
        1,
        Reason("gang", text, {"needs": 4, "found": 2}),
        advice=Advice("topology", "rack", None, "without its topology rack it would start now on n1 and n2"),
    )


def test_a_gang_that_is_not_all_there_waits_for_the_rest() -> None:
    picture = picture_of([node()], gang(1, [asks()] * 3)[:2])
    text = "2 of the 3 tasks of its gang are known; it starts when all are"
    assert why(picture, 1) == waits(1, Reason("gang", text, {"known": 2, "of": 3}))


def test_a_gang_of_unlike_tasks_is_told_what_those_lack_that_find_no_room() -> None:
    """Its first task, a coordinator without GPUs, would start at once."""
    nodes = [node("n1", gpus=4), node("n2", gpus=4)]
    others = [(task(9, asks(gpus=2)), "n1", (0, 1)), (task(8, asks(gpus=2)), "n2", (0, 1))]
    answer = why(picture_of(nodes, gang(1, [asks(), asks(gpus=3), asks(gpus=3)]), others), 1)
    needs = "needs 3 whole GPUs on one node; 2 nodes match, best has 2 free (n1)"
    assert [reason.text for reason in answer.reasons] == [needs, "needs 3 places together; 0 found"]
    assert [each.job_id for each in answer.holders] == [9]
