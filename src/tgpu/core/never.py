"""Could any node that is known ever run this, if it were empty and all its GPUs were well?"""

from collections.abc import Iterable
from dataclasses import replace

from tgpu.core.by_name import could_be_named
from tgpu.core.columns.dimensions import BASIC
from tgpu.core.columns.kind_columns import thousandths, wants_gpu
from tgpu.core.kernel.shapes import WHOLE
from tgpu.core.picture import Picture
from tgpu.core.rules import as_if_well, device_suits, right_node
from tgpu.core.wording import amount_of, bare_amount, gpus_asked, number
from tgpu.domain.charges import charged_gpu_milli
from tgpu.domain.job import Request
from tgpu.domain.node import Node
from tgpu.domain.quantities import size_in_words
from tgpu.domain.views import Reason

_MOST_SENTENCES = 5
_MOST_POOLS = 10
_BASIC = ("too-many-cpus", "too-much-memory", "too-much-disk")


def never_fits(
    request: Request, picture: Picture, tenant_id: str | None = None, tasks: int = 1
) -> str | None:
    """Why no node that is known could ever run this; None if one could, or if none is known yet. Whose it is,
    and how many are to run together, matters only for what it is told to ask for instead."""
    anywhere = _more_than_the_cluster_has(request, picture) or _no_such_pool(request, picture)
    if anywhere is not None:
        return anywhere
    found = []
    for place in picture.places.values():
        reason = unsuitable(request, place.node, picture)
        if reason is None:
            return None
        found.append(reason)
    if not found:
        return None
    named = could_be_named(picture, request, tasks * charged_gpu_milli(request), tenant_id)
    return _in_one_sentence(request, picture, found, named)


def unsuitable(request: Request, node: Node, picture: Picture) -> Reason | None:
    """Why the node would be wrong even if it were empty."""
    reason = right_node(request, node)
    if reason is None:
        reason = picture.table.kinds.objection(request, node)
    return _too_large(request, node, picture) if reason is None else reason


def _too_large(request: Request, node: Node, picture: Picture) -> Reason | None:
    if wants_gpu(request):
        asked, has = _gpus_wanted(request), _gpus_that_suit(request, node)
        if has < asked:
            return _more_than(node, "too-many-gpus", gpus_asked(request), asked, has)
    table = picture.table
    capacity = table.nodes.capacity[table.nodes.row(node.node_id)]
    basic = (request.cpu_milli, request.memory_mib, request.disk_mib)
    for column, (asked, has) in enumerate(zip(basic, capacity[:BASIC].tolist(), strict=True)):
        if asked > has:
            return _more_than(node, _BASIC[column], amount_of(column, asked), asked, has)
    for name, asked in request.generic:
        if name not in table.dimensions.cluster and asked > node.capacity.generic.get(name, 0):
            has = node.capacity.generic.get(name, 0)
            return _more_than(node, f"too-many-{name}", f"{asked} of {name}", asked, has)
    return None


def _more_than(node: Node, code: str, wanted: str, asked: int, has: int) -> Reason:
    text = f"{wanted} asked for, {node.node_id} has {_shown(code, has)}"
    return Reason(code, text, {"node_id": node.node_id, "wanted": wanted, "asked": asked, "has": has})


def _shown(code: str, has: int) -> str:
    return bare_amount(_BASIC.index(code), has) if code in _BASIC else number(has)


def _gpus_wanted(request: Request) -> int:
    return max(1, request.gpu_milli // WHOLE)


def _gpus_that_suit(request: Request, node: Node) -> int:
    """Also those that are ill or used by others now: they may come back."""
    devices = [as_if_well(device) for device in node.capacity.devices]
    return sum(0 < part <= WHOLE for part in thousandths(devices, request))


def _in_one_sentence(request: Request, picture: Picture, found: list[Reason], could_name: list[str]) -> str:
    """However many nodes there are: sizes against the largest, the rest by what they say. `could_name`:
    models that it is kept off, and could have by name."""
    nodes = [place.node for place in picture.places.values()]
    has = max(_gpus_that_suit(request, node) for node in nodes)
    if wants_gpu(request) and has < _gpus_wanted(request):
        return _too_few_gpus(request, nodes, has, could_name)
    codes, sentences = dict.fromkeys(reason.code for reason in found), []
    for code in codes:
        largest = (
            "the largest node"
            if len(codes) == 1
            else f"the largest of {sum(reason.code == code for reason in found)} nodes"
        )
        sentences += _of_one_code([reason for reason in found if reason.code == code], largest)
    if len(sentences) > _MOST_SENTENCES:
        rest = len(sentences) - _MOST_SENTENCES
        return "; ".join(sorted(sentences)[:_MOST_SENTENCES]) + f"; and {rest} more such reasons"
    return "; ".join(sorted(sentences))


def _too_few_gpus(request: Request, nodes: list[Node], has: int, could_name: list[str]) -> str:
    asked, by_name = gpus_asked(request), replace(request, gpu_types_barred=())
    models = [
        name
        for name in request.gpu_types_barred
        if any(name in device.model.lower() for node in nodes for device in node.capacity.devices)
    ]
    enough = max(_gpus_that_suit(by_name, node) for node in nodes) >= _gpus_wanted(request)
    if not models or not enough or request.gpu_type is not None:
        return f"it asks for {asked}, the largest node has {_or_smaller(request, nodes, has)}"
    of_models = f"{' and '.join(models)} GPUs"
    named = " or ".join(f"--gpu-type {model}" for model in models if model in could_name)
    if not named:
        return (
            f"it asks for {asked}, the largest node has {has} beside {of_models}, of which its tenant may "
            "not have so many"
        )
    others = f" (the largest node has {has} others)" if has else ""
    return (
        f"it asks for {asked}, and its tenant has a limit on {of_models}, which are given "
        f"only by name{others}: ask for them with {named}"
    )


def _or_smaller(request: Request, nodes: Iterable[Node], has: int) -> str:
    """Devices of the right type that are too small are worth a word."""
    if has or not request.gpu_memory_mib:
        return str(has)
    devices = [as_if_well(device) for node in nodes for device in node.capacity.devices]
    anyway = [device for device in devices if device_suits(device, _any_size(request))]
    if not anyway:
        return "0"
    return f"{has}: no GPU has more than {size_in_words(max(device.memory_mib for device in anyway))}"


def _any_size(request: Request) -> Request:
    return Request(gpu_milli=WHOLE, gpu_type=request.gpu_type)


def _of_one_code(reasons: list[Reason], largest: str) -> list[str]:
    if len(reasons) > 1 and "has" in reasons[0].data:
        has = max(int(str(reason.data["has"])) for reason in reasons)
        wanted = reasons[0].data["wanted"]
        return [f"it asks for {wanted}, {largest} has {_shown(reasons[0].code, has)}"]
    return list(dict.fromkeys(reason.text for reason in reasons))


def _no_such_pool(request: Request, picture: Picture) -> str | None:
    if request.pool is None:
        return None
    pools = sorted({place.node.pool for place in picture.places.values()})
    if request.pool in pools or not pools:
        return None
    shown = ", ".join(pools[:_MOST_POOLS]) + (", …" if len(pools) > _MOST_POOLS else "")
    there = f"there is only the pool {shown}" if len(pools) == 1 else f"there are the pools {shown}"
    return f"it asks for pool {request.pool}, which has no nodes; {there}"


def _more_than_the_cluster_has(request: Request, picture: Picture) -> str | None:
    table = picture.table
    has = dict(zip(table.dimensions.cluster, table.cluster_total.tolist(), strict=True))
    for name, asked in request.generic:
        if name in has and asked > has[name]:
            return f"it asks for {asked} of licence {name}, the cluster has {has[name]}"
    return None
