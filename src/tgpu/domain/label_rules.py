"""What a node's labels must be like, as people write it: `zone in (a, b)`, `!spot`, `gpu-memory >= 40`."""

import re
from collections.abc import Sequence
from math import isfinite

from tgpu.domain.job import LabelOp, LabelRule
from tgpu.domain.quantities import BadQuantityError

MAX_LABEL = 253
MAX_RULES = 64
MAX_VALUES = 64

_KEY = r"([^\s=!<>(),]+)"
_VALUE = r"([^\s=!<>,()][^,()]*)"
_ABSENT = re.compile(rf"!\s*{_KEY}")
_AMONG = re.compile(rf"{_KEY}\s+(in|notin)\s*\((.*)\)")
_EQUALS = re.compile(rf"{_KEY}\s*(=|==|!=)\s*{_VALUE}")
_COMPARES = re.compile(rf"{_KEY}\s*(>=|<=|>|<)\s*(\S+)")
_EXISTS = re.compile(_KEY)
_OPS = {
    "in": LabelOp.IN,
    "notin": LabelOp.NOT_IN,
    "=": LabelOp.IN,
    "==": LabelOp.IN,
    "!=": LabelOp.NOT_IN,
    ">": LabelOp.ABOVE,
    "<": LabelOp.BELOW,
    ">=": LabelOp.AT_LEAST,
    "<=": LabelOp.AT_MOST,
}
_SIGNS = {LabelOp.ABOVE: ">", LabelOp.BELOW: "<", LabelOp.AT_LEAST: ">=", LabelOp.AT_MOST: "<="}
_LONGEST_SHOWN = 80


def label(name: str, text: str) -> str:
    """One label's key or value."""
    if not text or len(text) > MAX_LABEL or not text.isprintable():
        raise BadQuantityError(
            f"{name} must be 1 to {MAX_LABEL} printable characters; got {text[:_LONGEST_SHOWN]!r}"
        )
    return text


def label_rules(name: str, texts: Sequence[str]) -> tuple[LabelRule, ...]:
    if len(texts) > MAX_RULES:
        raise BadQuantityError(f"{name} may have at most {MAX_RULES} rules; got {len(texts)}")
    return tuple(label_rule(name, text) for text in texts)


def label_rule(name: str, text: str) -> LabelRule:
    """`zone=a` is `zone in (a)`, `zone!=a` is `zone notin (a)`."""
    body = text.strip()
    if found := _ABSENT.fullmatch(body):
        return LabelRule(label(name, found[1]), LabelOp.ABSENT)
    if found := _AMONG.fullmatch(body):
        return LabelRule(label(name, found[1]), _OPS[found[2]], _values(name, found[3]))
    if found := _EQUALS.fullmatch(body):
        return LabelRule(label(name, found[1]), _OPS[found[2]], (label(name, found[3]),))
    if found := _COMPARES.fullmatch(body):
        return LabelRule(label(name, found[1]), _OPS[found[2]], (_number(name, found[3]),))
    if found := _EXISTS.fullmatch(body):
        return LabelRule(label(name, found[1]), LabelOp.EXISTS)
    raise BadQuantityError(
        f"{name} must be rules such as `zone in (a, b)`, `zone notin (a)`, `zone=a`, `zone!=a`, `ssd`, "
        f"`!spot` or `gpu-memory >= 40`; got {text[:_LONGEST_SHOWN]!r}"
    )


def written(rule: LabelRule) -> str:
    """The rule as an expression that is read as the same rule again."""
    match rule.op:
        case LabelOp.EXISTS:
            return rule.key
        case LabelOp.ABSENT:
            return f"!{rule.key}"
        case LabelOp.IN | LabelOp.NOT_IN if len(rule.values) > 1:
            among = "in" if rule.op is LabelOp.IN else "notin"
            return f"{rule.key} {among} ({', '.join(rule.values)})"
        case LabelOp.IN:
            return f"{rule.key}={rule.values[0]}"
        case LabelOp.NOT_IN:
            return f"{rule.key}!={rule.values[0]}"
        case _:
            return f"{rule.key} {_SIGNS[rule.op]} {rule.values[0]}"


def _values(name: str, text: str) -> tuple[str, ...]:
    values = [value.strip() for value in text.split(",")]
    if len(values) > MAX_VALUES:
        raise BadQuantityError(f"{name} may have at most {MAX_VALUES} values in one rule; got {len(values)}")
    if not all(re.fullmatch(_VALUE, value) for value in values):
        raise BadQuantityError(
            f"{name} must list plain values, such as `zone in (a, b)`; got ({text[:_LONGEST_SHOWN]})"
        )
    return tuple(label(name, value) for value in values)


def _number(name: str, text: str) -> str:
    try:
        is_number = isfinite(float(text))
    except ValueError:
        is_number = False
    if not is_number:
        raise BadQuantityError(
            f"{name} must compare with a number, such as `gpu-memory >= 40`; got {text[:_LONGEST_SHOWN]!r}"
        )
    return label(name, text)


def holds(rule: LabelRule, value: str | None) -> bool:
    """Whether a node that has this label, or none of that key, is as the rule says."""
    match rule.op:
        case LabelOp.EXISTS:
            return value is not None
        case LabelOp.ABSENT:
            return value is None
        case LabelOp.IN:
            return value in rule.values
        case LabelOp.NOT_IN:
            return value not in rule.values
        case _:
            return _compares(rule, value)


def _compares(rule: LabelRule, value: str | None) -> bool:
    try:
        has, asked = float(value or ""), float(rule.values[0])
    except ValueError:
        return False  # a label that is no number is neither more nor less
    match rule.op:
        case LabelOp.ABOVE:
            return has > asked
        case LabelOp.BELOW:
            return has < asked
        case LabelOp.AT_LEAST:
            return has >= asked
        case _:
            return has <= asked
