"""Small random clusters in the form of the kernel's arrays, and the rules of room as plain code."""

from dataclasses import dataclass

import numpy as np

from tgpu.core.kernel.shapes import NOWHERE, UNKNOWN, WHOLE, Attempts, Kinds, Layouts, Nodes

COLUMNS, DEVICES, LAYOUTS, NODE_KINDS = 3, 4, 3, 2


@dataclass
class World:
    nodes: Nodes
    kinds: Kinds
    layouts: Layouts
    attempts: Attempts
    unit_tasks: np.ndarray
    unit_cost: np.ndarray
    unit_stoppable: np.ndarray
    reserved: np.ndarray
    reserved_gpu: np.ndarray
    reserved_any: np.ndarray
    reserved_tasks: np.ndarray
    reserved_alone: np.ndarray
    opens_ms: np.ndarray

    def rows(self, node: int) -> range:
        return range(self.attempts.begin[node], self.attempts.begin[node + 1])

    def freed(self, node: int, rows: list[int]) -> tuple[list[int], list[int], int]:
        """Amounts and devices free for others, and how many tasks are left, once these rows are gone."""
        free = [int(value) for value in self.nodes.free[node] - self.reserved[node]]
        gpu = [int(value) for value in self.nodes.gpu_free[node] - self.reserved_gpu[node]]
        for row in rows:
            for column, need in enumerate(self.kinds.need[self.attempts.kind[row]]):
                free[column] += int(need)
            for device in range(DEVICES):
                if self.attempts.devices[row] >> device & 1:
                    gpu[device] += int(self.attempts.milli[row])
        return free, gpu, int(self.nodes.tasks[node]) - len(rows)

    def suits(self, kind: int, node: int) -> bool:
        return bool(
            self.nodes.takes[node]
            and self.kinds.suits[kind, self.nodes.kind[node]]
            and self.kinds.pinned[kind] in (NOWHERE, node)
        )

    def has_room(self, kind: int, node: int, free: list[int], gpu: list[int], tasks: int) -> bool:
        if tasks and (self.nodes.alone[node] or self.kinds.exclusive[kind]):
            return False
        needs = zip(self.kinds.need[kind], free, strict=True)
        return (
            all(need == 0 or need <= has for need, has in needs)
            and self.usual_devices(kind, node, gpu) is not None
        )

    def usable(self, kind: int, node: int, gpu: list[int]) -> list[int]:
        needs = self.kinds.device_need[kind, self.nodes.layout[node]]
        return [device for device in range(DEVICES) if 0 < needs[device] <= gpu[device]]

    def usual_devices(self, kind: int, node: int, gpu: list[int]) -> list[int] | None:
        count, layout = int(self.kinds.gpus[kind]), self.nodes.layout[node]
        usable = self.usable(kind, node, gpu)
        if count == 0 or len(usable) < count:
            return [] if count == 0 else None
        if not self.kinds.whole[kind]:
            return [min(usable, key=lambda device: (gpu[device], device))]
        for group_of in (self.layouts.island[layout], self.layouts.numa[layout]):
            groups = [
                [device for device in usable if group_of[device] == group]
                for group in set(group_of.tolist()) - {-1}
            ]
            enough = [group for group in groups if len(group) >= count]
            if enough:
                return min(enough, key=lambda group: (len(group), group[0]))[:count]
        return usable[:count]


def bits(devices: list[int]) -> int:
    return sum(1 << device for device in devices)


def small_world(seed: int, *, crowded: int = 8) -> World:
    dice = np.random.default_rng(seed)
    count = int(dice.integers(1, 5))
    layouts = Layouts(
        dice.integers(-1, 2, (LAYOUTS, DEVICES)).astype(np.int32),
        dice.integers(-1, 2, (LAYOUTS, DEVICES)).astype(np.int32),
    )
    there = dice.random((LAYOUTS, DEVICES)) < 0.8
    kinds = _kinds(dice, count, there)
    capacity = dice.integers(4, 12, (count, COLUMNS))
    layout = dice.integers(0, LAYOUTS, count).astype(np.int32)
    gpu_free = np.where(there[layout], WHOLE, 0).astype(np.int32)
    nodes = Nodes(
        free=capacity.copy(),
        capacity=capacity,
        gpu_free=gpu_free,
        gpu_sum=np.zeros(count, np.int64),
        tasks=np.zeros(count, np.int32),
        alone=np.zeros(count, np.int32),
        takes=dice.random(count) < 0.9,
        kind=dice.integers(0, NODE_KINDS, count).astype(np.int32),
        layout=layout,
    )
    held = _held(dice, nodes, kinds, crowded * count)
    return _with_units(dice, nodes, kinds, layouts, held)


def _kinds(dice: np.random.Generator, nodes: int, there: np.ndarray) -> Kinds:
    count = 9
    gpus = np.array([0, 0, 1, 1, 1, 1, 1, 2, 3], np.int32)
    whole = np.array([False] * 6 + [True] * 3)
    parts = np.where(whole, WHOLE, dice.choice([200, 250, 400, 500, 600, 1000], count))
    suiting = (dice.random((count, LAYOUTS, DEVICES)) < 0.85) & there & (gpus > 0)[:, None, None]
    need = dice.integers(0, 4, (count, COLUMNS))
    need[[1, 5, 7, 8]] *= 3  # so that one who goes is often not enough
    pinned = np.full(count, NOWHERE, np.int32)
    pinned[dice.random(count) < 0.1] = dice.choice([UNKNOWN, *range(nodes)])
    return Kinds(
        need=need,
        gpus=gpus,
        whole=whole,
        device_need=np.where(suiting, parts[:, None, None], 0).astype(np.int32),
        suits=dice.random((count, NODE_KINDS)) < 0.9,
        exclusive=dice.random(count) < 0.12,
        pinned=pinned,
        cluster_need=np.zeros((count, 1), np.int64),
        quota=np.zeros((count, 4), np.int64),
        scorer=np.zeros(count, np.int32),
    )


def _held(
    dice: np.random.Generator, nodes: Nodes, kinds: Kinds, tries: int
) -> list[tuple[int, int, int, int]]:
    """Tasks come at random, and take random devices of those they can use: (node, end, kind, devices)."""
    held = []
    for _ in range(tries):
        node, kind = int(dice.integers(len(nodes.takes))), int(dice.integers(len(kinds.gpus)))
        needs = kinds.device_need[kind, nodes.layout[node]]
        usable = [d for d in range(DEVICES) if 0 < needs[d] <= nodes.gpu_free[node, d]]
        if nodes.alone[node] or (kinds.exclusive[kind] and nodes.tasks[node]):
            continue
        if len(usable) < kinds.gpus[kind] or (kinds.need[kind] > nodes.free[node]).any():
            continue
        chosen = [int(d) for d in dice.permutation(usable)[: kinds.gpus[kind]]]
        nodes.free[node] -= kinds.need[kind]
        nodes.tasks[node] += 1
        nodes.alone[node] += kinds.exclusive[kind]
        for device in chosen:
            nodes.gpu_free[node, device] -= needs[device]
        if dice.random() < 0.06:
            continue  # a claim: it holds room, but no attempt of it will end
        held.append((node, int(dice.integers(1, 8)) * 10, kind, bits(chosen)))
    nodes.free[dice.random(nodes.free.shape) < 0.02] -= 2  # a debt: victims have yet to go
    nodes.gpu_sum[:] = nodes.gpu_free.sum(axis=1)
    return sorted(held)


def _with_units(
    dice: np.random.Generator,
    nodes: Nodes,
    kinds: Kinds,
    layouts: Layouts,
    held: list[tuple[int, int, int, int]],
) -> World:
    count, size = len(nodes.takes), len(held)
    number = dice.permutation(size)
    if size:
        joins = dice.random(size) < 0.25  # a gang: some attempts have the unit of another one
        number[joins] = number[dice.integers(0, size, size)[joins]]
    _, unit = np.unique(number, return_inverse=True)
    units = int(unit.max()) + 1 if size else 0
    node, end, kind, devices = (
        (np.array(column, np.int64) for column in zip(*held, strict=True))
        if size
        else (np.zeros(0, np.int64) for _ in range(4))
    )
    attempts = Attempts(
        begin=np.searchsorted(node, np.arange(count + 1)).astype(np.int32),
        kind=kind.astype(np.int32),
        end_ms=end,
        rank=dice.integers(0, 5, units).astype(np.int32)[unit],
        unit=unit.astype(np.int32),
        devices=devices,
        milli=kinds.device_need.max(axis=(1, 2))[kind].astype(np.int32),
        cost=np.zeros(size, np.int64),
        stoppable=np.ones(size, np.bool_),
    )
    reserved_any = dice.random(count) < 0.25
    return World(
        nodes,
        kinds,
        layouts,
        attempts,
        unit_tasks=(np.bincount(unit, minlength=units) + dice.choice([0, 0, 0, 2], units)).astype(np.int32),
        unit_cost=dice.integers(0, 4, units),
        unit_stoppable=dice.random(units) < 0.9,
        reserved=dice.integers(0, 3, (count, COLUMNS)) * reserved_any[:, None],
        reserved_gpu=(dice.choice([0, 0, 400, WHOLE], (count, DEVICES)) * reserved_any[:, None]).astype(
            np.int32
        ),
        reserved_any=reserved_any,
        reserved_tasks=reserved_any.astype(np.int32),
        reserved_alone=reserved_any & (dice.random(count) < 0.2),
        opens_ms=dice.choice([0, 0, 0, 25, 40], count).astype(np.int64),
    )
