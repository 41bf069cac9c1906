"""podFailurePolicy to tgpu's rules of what becomes of a failure."""

import signal
from collections.abc import Iterator
from typing import Any

from tgpu.dialects.kubernetes.problems import refused
from tgpu.dialects.kubernetes.shape import (
    JobSpec,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyRule,
)
from tgpu.domain.lifecycle import Cause

_AT = "spec.podFailurePolicy.rules"
_ACTIONS = {"Count": "count", "Ignore": "ignore", "FailIndex": "fail-index", "FailJob": "fail-job"}
_DISRUPTED = [Cause.PREEMPTED.value, *(cause.value for cause in Cause if cause.is_infrastructure)]
_MOST_RULES = 20
_MOST_VALUES = 255
_BY_SIGNAL = 128
"""What a shell adds to the number of the signal that ended a program."""
_SIGNALS = sorted(int(number) for number in signal.valid_signals())


def failure_rules(spec: JobSpec) -> list[dict[str, Any]]:
    policy = spec.pod_failure_policy
    if policy is None:
        return []
    if spec.template.spec.restart_policy != "Never":
        raise refused("spec.podFailurePolicy", "needs spec.template.spec.restartPolicy to be Never")
    if len(policy.rules) > _MOST_RULES:
        raise refused(_AT, f"may have at most {_MOST_RULES} rules; got {len(policy.rules)}")
    return [made for at, rule in enumerate(policy.rules) for made in _made(rule, f"{_AT}[{at}]", spec)]


def _made(rule: PodFailurePolicyRule, path: str, spec: JobSpec) -> Iterator[dict[str, Any]]:
    if (rule.on_exit_codes is None) is not bool(rule.on_pod_conditions):
        raise refused(path, "must say either onExitCodes or onPodConditions")
    if rule.action == "FailIndex" and spec.backoff_limit_per_index is None:
        raise refused(f"{path}.action", "can be FailIndex only with spec.backoffLimitPerIndex")
    action = {"action": _ACTIONS[rule.action]}
    if rule.on_exit_codes is None:
        yield {**action, "causes": _DISRUPTED}
        return
    codes = _checked(rule.on_exit_codes, f"{path}.onExitCodes", spec.template.spec.containers[0].name)
    among = rule.on_exit_codes.operator == "In"
    yield {**action, "exit_codes" if among else "not_exit_codes": codes}
    # One that a signal ended has no exit code here; there it has 128 and the signal's number.
    signals = [number for number in _SIGNALS if (number + _BY_SIGNAL in codes) is among]
    if signals:
        yield {**action, "signals": signals}
    if signal.SIGKILL in signals:
        yield {**action, "causes": [Cause.OUT_OF_MEMORY.value]}  # an engine does not tell the signal, too


def _checked(asked: PodFailurePolicyOnExitCodesRequirement, path: str, container: str) -> list[int]:
    if asked.container_name not in (None, container):
        raise refused(f"{path}.containerName", f"must be {container}, as the container is called")
    codes = asked.values
    if not 1 <= len(codes) <= _MOST_VALUES or len(set(codes)) < len(codes):
        raise refused(f"{path}.values", f"must be 1 to {_MOST_VALUES} exit codes, each once")
    least = 1 if asked.operator == "In" else 0
    for at, code in enumerate(codes):
        if not least <= code <= _MOST_VALUES:
            raise refused(f"{path}.values[{at}]", f"must be an exit code from {least} to 255; got {code}")
    return codes
