"""Where may a task run at all? One function per rule: None, or why not, even if the node were empty."""

from collections.abc import Callable
from dataclasses import replace

from tgpu.domain.gpu_words import folded
from tgpu.domain.job import LabelOp, LabelRule, Request
from tgpu.domain.label_rules import holds
from tgpu.domain.node import Device, Node
from tgpu.domain.views import Reason

Rule = Callable[[Request, Node], Reason | None]


def right_node(request: Request, node: Node) -> Reason | None:
    if request.node_id in (None, node.node_id):
        return None
    return Reason("other-node", f"its working directory exists only on {request.node_id}")


def right_pool(request: Request, node: Node) -> Reason | None:
    if request.pool in (None, node.pool):
        return None
    return Reason("other-pool", f"it asks for pool {request.pool}")


def right_user(request: Request, node: Node) -> Reason | None:
    if node.serves in ("*", request.user):
        return None
    return Reason("other-user", f"{node.node_id} runs only the jobs of {node.serves}")


def labels_as_asked(request: Request, node: Node) -> Reason | None:
    for key, value in request.node_selector:
        if node.labels.get(key) != value:
            return Reason("selector", f"it asks for a node with {key}={value}", {"key": key})
    for rule in request.node_rules:
        if not holds(rule, node.labels.get(rule.key)):
            return Reason("selector", f"it asks for a node with {in_words(rule)}", {"key": rule.key})
    return None


def taints_tolerated(request: Request, node: Node) -> Reason | None:
    missing = not_tolerated(request, node)
    if not missing:
        return None
    text = f"{node.node_id} is tainted with {' and '.join(missing)}, which it does not tolerate"
    return Reason("taint", text, {"taints": list(missing)})


def not_tolerated(request: Request, node: Node) -> tuple[str, ...]:
    """All the taints in the way, so that one look is enough to name them."""
    tolerated = set(request.tolerations)
    return tuple(taint for taint in node.taints if not {"*", taint, taint.partition("=")[0]} & tolerated)


RULES: dict[str, Rule] = {
    "node": right_node,
    "pool": right_pool,
    "user": right_user,
    "labels": labels_as_asked,
    "taints": taints_tolerated,
}


def device_suits(device: Device, request: Request) -> bool:
    """`a100` names an `NVIDIA A100-SXM4-80GB`; neither case nor dash or space matters."""
    return (
        device.is_usable
        and (request.gpu_type is None or folded(request.gpu_type) in folded(device.model))
        and device.memory_mib >= request.gpu_memory_mib
        and not is_barred(device, request)
    )


def as_if_well(device: Device) -> Device:
    """The same device in better times: neither ill nor used by others."""
    return device if device.is_usable else replace(device, healthy=True, avoided=False)


def is_barred(device: Device, request: Request) -> bool:
    """Whether a limit of its tenant's keeps it off such devices, as it did not ask for them by name."""
    model = device.model.lower()
    return any(barred in model for barred in request.gpu_types_barred)


_SIGNS = {LabelOp.ABOVE: ">", LabelOp.BELOW: "<", LabelOp.AT_LEAST: ">=", LabelOp.AT_MOST: "<="}


def in_words(rule: LabelRule) -> str:
    match rule.op:
        case LabelOp.EXISTS:
            return f"a label {rule.key}"
        case LabelOp.ABSENT:
            return f"no label {rule.key}"
        case LabelOp.IN:
            return f"{rule.key} in ({', '.join(rule.values)})"
        case LabelOp.NOT_IN:
            return f"{rule.key} not in ({', '.join(rule.values)})"
        case _:
            return f"{rule.key} {_SIGNS[rule.op]} {rule.values[0]}"
