"""What a launch says of its user's secrets, and of its own key, on the way to its node and nowhere else."""

import asyncio
from collections.abc import Sequence

from tests.control.control_story import FakeNode, picture_with, play, task
from tgpu.control.hub import Hub
from tgpu.control.inbox import Inbox
from tgpu.control.orders import REPEAT_AFTER_S, OrderBook
from tgpu.control.secret_values import revealed
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Group, JobSpec, Request
from tgpu.protocol.job_keys import JobKeys
from tgpu.protocol.messages import Launch, Orders
from tgpu.store.port import StoreUnavailableError

KEPT = {"ada": {"hf": b"s3cret\n", "wandb": b"w"}, "bob": {"hf": b"bobs"}}


async def bodies(user: str, names: Sequence[str]) -> dict[str, bytes]:
    return {name: KEPT[user][name] for name in names if name in KEPT[user]}


def spec(**secret_env: str) -> JobSpec:
    group = Group(("true",), Request(1000, 0, 0, 1000), env={"N": "1"}, secret_env=secret_env)
    return JobSpec("ada", (group,))


def launches(node: FakeNode) -> list[Launch]:
    return [launch for orders in node.heard if isinstance(orders, Orders) for launch in orders.launches]


def test_the_store_s_secrets_are_filled_in_and_files_are_left_to_the_node() -> None:
    def launch(user: str, **secret_env: str) -> Launch:
        return Launch(
            attempt="1.0.1", job_name="", user=user, command="x", cwd="/", env={"N": "1"}, devices=(),
            cpu_milli=0, memory_mib=0, gpu_milli=0, time_limit_s=None, grace_s=0, secret_env=secret_env,
        )  # fmt: skip

    asked = [launch("ada", A="store:hf", B="file:/x", C="store:gone"), launch("bob", A="store:hf")]
    ada, bob = asyncio.run(revealed(asked, bodies))
    assert (ada.env, ada.secret_env) == ({"N": "1", "A": "s3cret"}, {"B": "file:/x", "C": "store:gone"})
    assert (bob.env, bob.secret_env) == ({"N": "1", "A": "bobs"}, {})


def test_each_time_a_launch_is_said_its_secrets_are_looked_up_anew() -> None:
    async def story() -> None:
        hub = Hub(Inbox())
        hub.lead("c", 1)
        node, book = FakeNode(hub), OrderBook(hub)
        node.says_hello()
        picture = picture_with(placed=[task(1)])
        book.launch(picture.placed[TaskId(1, 0)], spec(HF="store:hf"), 0.0)
        await book.reveal(bodies)
        book.send()
        assert "s3cret" not in repr(vars(book)), "they are kept nowhere"
        book.say_again(picture, REPEAT_AFTER_S)
        await book.reveal(bodies)
        book.send()
        assert [launch.env for launch in launches(node)] == [{"N": "1", "HF": "s3cret"}] * 2

    play(story())


def test_while_the_store_is_away_only_what_names_secrets_waits() -> None:
    async def away(_user: str, _names: Sequence[str]) -> dict[str, bytes]:
        raise StoreUnavailableError("away")

    async def story() -> None:
        hub = Hub(Inbox())
        hub.lead("c", 1)
        node, book = FakeNode(hub), OrderBook(hub)
        node.says_hello()
        picture = picture_with(placed=[task(1), task(2)])
        book.launch(picture.placed[TaskId(1, 0)], spec(HF="store:hf"), 0.0)
        book.launch(picture.placed[TaskId(2, 0)], spec(), 0.0)
        await book.reveal(away)
        book.send()
        assert [launch.attempt for launch in launches(node)] == ["2.0.1"]
        book.say_again(picture, REPEAT_AFTER_S)
        await book.reveal(bodies)
        book.send()
        assert {launch.attempt for launch in launches(node)} == {"1.0.1", "2.0.1"}

    play(story())


def test_keys_are_made_for_nodes_whose_tasks_need_them_each_time_a_launch_is_said() -> None:
    async def story() -> None:
        hub, keys = Hub(Inbox()), JobKeys(b"secret")
        hub.lead("c", 1)
        node, book = FakeNode(hub), OrderBook(hub)
        picture = picture_with(placed=[task(1)])
        book.launch(picture.placed[TaskId(1, 0)], spec(), 0.0)
        for at, (wants, has) in enumerate([(True, keys), (False, keys), (True, None)], 1):
            node.wants_keys, hub.job_keys = wants, has
            node.says_hello()
            book.say_again(picture, at * REPEAT_AFTER_S)
            book.send()
            assert keys.of("1.0.1") not in repr(vars(book)), "they are kept nowhere"
        said = [launch.key for launch in launches(node)]
        assert said == [keys.of("1.0.1"), keys.of("1.0.1"), "", ""]

    play(story())
