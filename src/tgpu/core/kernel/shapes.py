"""What the loops work on: one row per node, kind of request, tenant, waiting task or attempt.

Amounts are exact integers. The columns of `D` are CPU (thousandths), memory and disk (MiB), then the generic
resources that nodes have; those of `C` are the cluster's own generic resources; `U` = `D`, then GPU
(thousandths), then `C`: what a tenant's share is measured in. `Q` is what quotas count: CPU, memory, disk,
GPUs, then what is limited by name.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int8]

WHOLE = 1000
"""One whole GPU, in thousandths."""
NEVER = 2**62
"""A moment, in ms, that does not come."""
NOWHERE = -1
UNKNOWN = -2
"""Of a pinned kind: a node that has not joined."""


class Nodes(NamedTuple):
    """`N` rows, in the order of the nodes' names: the first of equals is the one with the smallest name."""

    free: Ints
    """[N, D] what is left, claims taken off; negative where victims have yet to go"""
    capacity: Ints
    """[N, D] with overcommitment"""
    gpu_free: Small
    """[N, G] thousandths left of each device; 0 where there is no device"""
    gpu_sum: Ints
    """[N] the sum of `gpu_free`"""
    tasks: Small
    """[N] how many tasks are there (claims count)"""
    alone: Small
    """[N] how many exclusive tasks are there (claims count): none, or nobody joins them"""
    takes: Flags
    """[N] ready and connected"""
    kind: Small
    """[N] the kind of node, a column of `Kinds.suits`"""
    layout: Small
    """[N] the arrangement of its devices, a row of `Layouts`"""


class Layouts(NamedTuple):
    """`L` rows: how devices stand to each other in a node."""

    island: Small
    """[L, G] NVLink island, or -1"""
    numa: Small
    """[L, G] NUMA node, or -1"""


class Kinds(NamedTuple):
    """`K` rows: what tasks ask for. Time limits are not part of a kind."""

    need: Ints
    """[K, D]"""
    gpus: Small
    """[K] how many devices: 0, or 1 for a part of one, or the number of whole ones"""
    whole: Flags
    """[K] whole devices"""
    device_need: Small
    """[K, L, G] thousandths it would take of that device; 0: the device does not suit"""
    suits: Flags
    """[K, kinds of node] judged by the rules, once"""
    exclusive: Flags
    """[K]"""
    pinned: Small
    """[K] the only node it may have (a row, or UNKNOWN), or NOWHERE: any"""
    cluster_need: Ints
    """[K, C]"""
    quota: Ints
    """[K, Q] what quotas are asked for"""
    scorer: Small
    """[K] a number of `scores`"""


class Attempts(NamedTuple):
    """`A` rows: who holds what. Sorted by node, then by estimated end, then by slot."""

    begin: Small
    """[N + 1] node n's rows are begin[n] … begin[n + 1]"""
    kind: Small
    """[A] a row of `Kinds`"""
    end_ms: Ints
    """[A] when it is over at the latest, by its limit"""
    rank: Small
    """[A] of its class; burst ranks last"""
    unit: Small
    """[A] those of one gang have one number; numbers are dense"""
    devices: Ints
    """[A] one bit per device"""
    milli: Small
    """[A] thousandths taken of each of these devices"""
    cost: Ints
    """[A] what stopping it would lose: the estimated remaining time, or work since a checkpoint, in ms"""
    stoppable: Flags
    """[A] may be a victim at all: not stopping already, has had its minimum run time"""


class Tree(NamedTuple):
    """`T` rows: tenants, each before its children, the children of one side by side in the order of names."""

    parent: Small
    """[T] -1 for the root, which is row 0 and no tenant"""
    first_child: Small
    """[T] children of t are first_child[t] … first_child[t] + children[t]"""
    children: Small
    """[T]"""
    weight: Floats
    """[T]"""
    used: Ints
    """[T, U] by everybody below, in all classes"""
    total: Ints
    """[U] ready and draining capacity"""
    past: Floats
    """[T] decayed use: what `fair-tree` goes by"""
    limit: Ints
    """[T, Q] quota; -1: none"""
    admitted: Ints
    """[T, Q] charged to the quota"""
    burst: Ints
    """[T, Q] charged to the burst"""
    begin_limit: Ints
    """[T, 2] the most tasks that run, and the most GPU-hours; -1: any"""
    begun: Ints
    """[T, 2] what of these is taken"""
    spent: Ints
    """[T] what of the GPU-hours nobody can give back any more"""
    promised: Ints
    """[T, Q + 2] of all that is limited: the most that one asks for who waits for a limit here or above"""


class Waiting(NamedTuple):
    """Columns by slot: everybody who waits."""

    kind: Small
    """a row of `Kinds`; of a gang's first task: the row that stands for the gang"""
    limit_ms: Ints
    """its time limit, or the pool's default"""
    tenant: Small
    """the tenant's number; `Stream.row_of` knows its row in the tree"""
    gang: Flags
    """stands for a whole gang"""
    held: Flags
    """not yet admitted by its tenant's quota"""
    gpu_ms: Ints
    """what it takes of GPU-hours if it runs as long as it may; of a gang's first task: what the gang takes"""
    taken: Flags
    """decided already in this plan"""


class Stream(NamedTuple):
    """Everybody of one class under one order: `Q` queues, and heaps that say whose turn it is."""

    slots: Small
    """every queue's slots in order, one queue after the other"""
    head: Ints
    """[Q] where each queue stands"""
    end: Ints
    """[Q]"""
    held_stop: Flags
    """[Q] its held tasks have met the end of the burst"""
    queue_of: Small
    """[T] the queue of that row of the tree, or -1"""
    heap: Small
    """[T] the children of t that have somebody to try, as a heap in heap[first_child[t]] …"""
    heap_size: Small
    """[T]"""
    value: Floats
    """[T] what the heaps go by, smallest first"""
    row_of: Small
    """a tenant's row in the tree, by its number"""
    flat: bool
    """one queue for all tenants"""
    static: bool
    """values do not move while the plan is made"""
    burst: bool
    """held tasks are admitted to the burst instead of the quota"""
    limited: bool
    """some tenant may run only so many tasks, or use only so many GPU-hours"""
    short: Ints
    """by a tenant's number: who takes so much of the GPU-hours, or more, does not begin in this plan"""
    asks: bool
    """some quota may refuse somebody here; not on the burst, which has rules of its own"""
    promised: Ints
    """by a tenant's number, [Q + 2] of all that is limited: the most that one of its own asks for who waits
    for a limit"""
    refused: Codes
    """[tenants times K] by a tenant's number and kind: what somebody lacked; see `promises`"""
    refused_before: Codes
    """the same of the last plan: such tasks are asked again also where there is no room for their kind"""
    line: Small
    """slots of held ones who were refused, in that order; of those alike, the first"""
    line_filled: Ints
    """[1] how many"""


class Index(NamedTuple):
    """Scores of nodes per kind, with the best of every 64; caught up with `log` when a kind is asked for."""

    score: Floats
    """[K, N]"""
    best: Floats
    """[K, blocks]"""
    room: Flags
    """[K, N] there is a score: most changes are of full nodes, and this is small enough to be near"""
    seen: Ints
    """[K] how far in the log; -1: not built yet"""
    log: Small
    """nodes that changed, in order"""
    length: Ints
    """[1] of the log"""
    mix_kind: Small
    """the frozen mix of recent requests, for the fragmentation score"""
    mix_weight: Floats


class Special(NamedTuple):
    """Nodes with reservations or windows: judged one by one, by the duration of the task."""

    flag: Flags
    """[N]"""
    node: Small
    """[N] the first `filled` are the special ones"""
    filled: Ints
    """[1]"""
    shadow_ms: Ints
    """[N] who ends by then delays nobody"""
    extra: Ints
    """[N, D] what whoever stays longer may have"""
    extra_gpu: Small
    """[N, G]"""
    extra_alone: Flags
    """[N] nobody may stay longer"""
    closes_ms: Ints
    """[N] the first window opens then"""
    window_node: Small
    """[W] of every window and node: the node"""
    window_from_ms: Ints
    """[W] nobody may run into it, except …"""
    window_guest: Small
    """[W] … this row of the tree and those below it; -1: nobody"""
    scratch: Small
    """[G] for writing on"""


class Started(NamedTuple):
    """What was decided: parallel columns, so many of them `filled`."""

    slot: Small
    kind: Small
    node: Small
    devices: Ints
    held: Small
    """0: charged before; 1: admitted now; 2: on the burst"""
    filled: Ints
    """[1]"""
