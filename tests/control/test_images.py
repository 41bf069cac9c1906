"""What an image's name means is asked of nodes; who has it, and who does not answer, decides."""

import asyncio

import pytest

from tgpu.control import images as module
from tgpu.control.images import Images, WithEngine
from tgpu.domain.container import ImageMeaning
from tgpu.protocol.messages import ImageResolved, ResolveImage


class FakeNode:
    """Answers at once as it was told to; None: not at all."""

    def __init__(self, **answer: str) -> None:
        self.answer: dict[str, str] | None = answer
        self.asked: list[ResolveImage] = []
        self.images: Images | None = None

    def send(self, message: ResolveImage) -> None:
        self.asked.append(message)
        if self.answer is not None:
            assert self.images is not None
            found = ImageResolved(request=message.request, **self.answer)
            asyncio.get_running_loop().call_soon(self.images.heard, self, found)


def meaning(*nodes: FakeNode, local: bool = False) -> ImageMeaning:
    images = Images(lambda: [WithEngine(f"host{at}", node) for at, node in enumerate(nodes)])
    for node in nodes:
        node.images = images
    return asyncio.run(images.meaning("train:1", local=local))


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.05)
    monkeypatch.setattr(module, "LOCAL_S", 0.05)


def silent() -> FakeNode:
    node = FakeNode()
    node.answer = None
    return node


def test_nobody_to_ask_or_nobody_who_answers_leaves_it_open() -> None:
    assert meaning() == ImageMeaning()
    assert meaning(silent()) == ImageMeaning()
    assert meaning(FakeNode()) == ImageMeaning()


def test_the_registrys_word_is_for_all_nodes() -> None:
    first, second = FakeNode(pinned="train@sha256:1", here="sha256:9"), FakeNode()
    assert meaning(first, second) == ImageMeaning(digest="train@sha256:1")
    assert second.asked == []


def test_what_only_some_have_runs_only_there() -> None:
    nodes = (
        FakeNode(),
        FakeNode(here="sha256:2"),
        silent(),
        FakeNode(here="sha256:3"),
        FakeNode(here="sha256:2"),
    )
    assert meaning(*nodes) == ImageMeaning(digest="sha256:2", hosts=("host1", "host4"))


def test_one_that_nobody_has_is_refused_with_the_registrys_words() -> None:
    assert meaning(FakeNode(missing="there is none"), FakeNode()) == ImageMeaning(refusal="there is none")


def test_without_the_registry_only_nodes_count() -> None:
    nodes = FakeNode(pinned="train@sha256:1", here="sha256:2"), FakeNode()
    assert meaning(*nodes, local=True) == ImageMeaning(digest="sha256:2", hosts=("host0",))
    assert [question.local for node in nodes for question in node.asked] == [True, True]
    assert "--pull never" in meaning(FakeNode(), FakeNode(), local=True).refusal
    assert meaning(FakeNode(), silent(), local=True) == ImageMeaning()


def test_answer_of_a_node_that_was_not_asked_is_ignored() -> None:
    asked, forger = FakeNode(here="sha256:9"), FakeNode()

    async def story() -> ImageMeaning:
        images = Images(lambda: [WithEngine("host0", asked)])
        asked.images = images
        found = asyncio.create_task(images.meaning("train:1", local=False))
        asyncio.get_running_loop().call_soon(
            images.heard, forger, ImageResolved(request=1, pinned="train@sha256:1")
        )
        return await found

    assert asyncio.run(story()) == ImageMeaning(digest="sha256:9", hosts=("host0",))


def test_name_cannot_be_given_the_meaning_of_another_image() -> None:
    assert meaning(FakeNode(pinned="evil/train@sha256:1")) == ImageMeaning()
