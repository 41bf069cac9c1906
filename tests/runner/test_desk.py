"""A supervisor says that it is free only when it will take the next order."""

import os
import socket
from pathlib import Path

from tgpu.runner import desk
from tgpu.runner.desk import FREE, Desk
from tgpu.runner.place import LAUNCH, frame


def at_a_desk(folder: Path) -> tuple[Desk, socket.socket]:
    ours, theirs = socket.socketpair()
    return Desk(theirs.detach(), os.open(folder, os.O_RDONLY)), ours


def test_an_order_comes_whole_however_it_was_cut(tmp_path: Path) -> None:
    supervisor, spawner = at_a_desk(tmp_path)
    message = frame(LAUNCH, "1.0.1", {"A": "x" * 1000})
    spawner.sendall(message)
    assert supervisor.next_order() == message
    spawner.close()
    assert supervisor.next_order() is None
    assert not supervisor.is_open


def test_who_has_had_enough_orders_leaves_instead_of_saying_free(tmp_path: Path) -> None:
    supervisor, spawner = at_a_desk(tmp_path)
    for _ in range(desk.ORDERS_MAX - 1):
        supervisor.say_free()
        assert spawner.recv(8) == FREE
    supervisor.say_free()
    assert spawner.recv(1) == b"", "an order would be lost with it"
    assert supervisor.next_order() is None
    spawner.close()
