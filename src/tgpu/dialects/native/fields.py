"""A job's fields under the names people use, from flags and from files alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgpu.dialects.native.array_fields import SERIES_ALIASES, SERIES_FIELDS, SERIES_FRIENDLY
from tgpu.dialects.native.output_file_fields import FILE_FIELDS
from tgpu.dialects.native.problems import JobFieldError
from tgpu.dialects.native.time_fields import TIME_ALIASES, TIME_FIELDS, TIME_FRIENDLY
from tgpu.domain import quantities
from tgpu.domain.quantities import BadQuantityError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_RULE_EXAMPLES = ("'zone in (a, b)'", "'zone!=a'", "ssd", "'!spot'", "'gpu-memory >= 40'")
ON_RETURN = ("longest", "replacement")
PULLS = ("always", "missing", "never")
CLASSES = ("real-time", "high", "default", "low", "best-effort")


def _text(name: str, value: object) -> str:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise JobFieldError(f"{name} must be text; got {value!r}")
    return str(value)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise JobFieldError(f"{name} must be true or false; got {value!r}")
    return value


def _thousandths(maximum: int) -> Callable[[str, object], float]:
    def convert(name: str, value: object) -> float:
        exact = quantities.milli(name, value, maximum)
        return exact // 1000 if exact % 1000 == 0 else exact / 1000

    return convert


def _mebibytes(name: str, value: object) -> int:
    return quantities.mib(name, _text(name, value))


def _seconds(name: str, value: object) -> int:
    return quantities.seconds(name, _text(name, value))


def _priority(name: str, value: object) -> int:
    text = _text(name, value)
    found = quantities.natural(text.removeprefix("-"))
    if found is None or found > quantities.MAX_PRIORITY:
        raise JobFieldError(
            f"{name} must be a whole number within ±{quantities.MAX_PRIORITY}, higher first; got {value!r}"
        )
    return -found if text.startswith("-") else found


def _priority_class(name: str, value: object) -> str:
    if value not in CLASSES:
        raise JobFieldError(f"{name} must be one of {', '.join(CLASSES)}; got {value!r}")
    return str(value)


def _on_return(name: str, value: object) -> str:
    if value not in ON_RETURN:
        raise JobFieldError(f"{name} must be one of {', '.join(ON_RETURN)}; got {value!r}")
    return str(value)


def _pull(name: str, value: object) -> str:
    if value not in PULLS:
        raise JobFieldError(f"{name} must be one of {', '.join(PULLS)}; got {value!r}")
    return str(value)


def pairs(name: str, value: object, form: str = "KEY=VALUE") -> dict[str, str]:
    """A mapping, or a list of `KEY=VALUE`."""
    if isinstance(value, list):
        for item in value:
            if not isinstance(item, str) or item.find("=") < 1:
                raise JobFieldError(f"{name} must be given as {form}; got {item!r}")
        value = dict(item.split("=", 1) for item in value)
    if not isinstance(value, dict) or "" in value or None in value:
        raise JobFieldError(f"{name} must be given as {form}; got {value!r}")
    return {_pair_text(name, key): _pair_text(f"{name} {key}", item) for key, item in value.items()}


def _pair_text(name: str, value: object) -> str:
    """YAML reads `1` and `true` as what they are not in an environment or a command, where all is text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else _text(name, value)


def _words(name: str, value: object) -> list[str]:
    """A list of texts, or one alone."""
    given = value if isinstance(value, list) else [value]
    return [_text(name, item) for item in given]


def _amounts(name: str, value: object) -> dict[str, int]:
    """Named amounts: a mapping, or a list of `NAME=N`."""
    given = pairs(name, value, "NAME=N, such as licence=2")
    return {key: _amount(f"{name} {key}", key, text) for key, text in given.items()}


def _amount(said: str, key: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise JobFieldError(f"{said} must be a whole number, such as {key}=2; got {text!r}")
    return quantities.whole(said, text, quantities.MAX_GENERIC)


def _secrets(name: str, value: object) -> dict[str, str]:
    """Variables by where their values are found when the job starts: a secret's name, or `file:PATH`."""
    return {
        variable: _secret_place(f"{name} {variable}", place)
        for variable, place in pairs(name, value, "VAR=NAME, or VAR=file:/PATH").items()
    }


def _secret_place(said: str, place: str) -> str:
    if place.startswith("file:") and not place.startswith("file:/"):
        raise JobFieldError(
            f"{said} must name the whole path on the node, such as file:/home/ann/key; got {place!r}"
        )
    if not place:
        raise JobFieldError(f"{said} must name a secret (`tgpu secret list` shows yours), or file:/PATH")
    return place if place.startswith(("file:", "store:")) else f"store:{place}"


def _rules(name: str, value: object) -> list[str]:
    """Read here already: the words of the server would tell a shell to run what stands in backquotes."""
    from tgpu.domain.label_rules import label_rule  # noqa: PLC0415  only who uses it

    given = _words(name, value)
    for text in given:
        try:
            label_rule(name, text)
        except BadQuantityError:
            raise JobFieldError(_what_rules_are_like(name, text)) from None
    return given


def _what_rules_are_like(name: str, text: str) -> str:
    """On a command line the examples can be pasted as they are, all of them together too."""
    if name.startswith("--"):
        examples = " ".join(f"{name} {example}" for example in _RULE_EXAMPLES)
        return f"{name} takes one rule, so each needs a {name} of its own, such as {examples}; got {text!r}"
    return f"{name} must be a list of rules, each such as {', '.join(_RULE_EXAMPLES)}; got {text!r}"


def _stop_signal(name: str, value: object) -> str:
    from tgpu.domain.signals import signal_name  # noqa: PLC0415  only who uses it

    return signal_name(name, _text(name, value))


def _warning(name: str, value: object) -> dict[str, object]:
    """`[main:]SIGNAL[@SECONDS]`: what is said of it, by field."""
    from tgpu.domain.signals import warning_parts  # noqa: PLC0415  only who uses it

    signal, before_s, main = warning_parts(name, _text(name, value))
    fields: dict[str, object] = {"warn_signal": signal}
    if before_s is not None:
        fields["warn_s"] = before_s
    return fields | ({"warn_main": True} if main else {})


def _tasks(name: str, value: object) -> int:
    found = quantities.natural(_text(name, value))
    if found is None or not 1 <= found <= quantities.MAX_TASKS:
        raise JobFieldError(f"{name} must be a whole number from 1 to {quantities.MAX_TASKS}; got {value!r}")
    return found


def _groups(name: str, value: object) -> list[dict[str, Any]]:
    """What each group of tasks has otherwise than the job says."""
    if not isinstance(value, list) or not all(isinstance(group, dict) for group in value):
        raise JobFieldError(f"{name} must be a list of groups, each with its own keys, such as `- tasks: 8`")
    found = [
        job_fields({str(key): item for key, item in group.items() if item is not None}, f"{name}[{at}] ")
        for at, group in enumerate(value)
    ]
    for at, group in enumerate(found):
        strange = sorted(group.keys() - _OF_GROUPS)
        if strange:
            raise JobFieldError(f"{name}[{at}] {friendly(strange[0])} is said once, of the whole job")
    return found


def _command(name: str, value: object) -> list[str] | str:
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, list) and value and all(isinstance(part, str | int | float) for part in value):
        return [_pair_text(name, part) for part in value]
    raise JobFieldError(f"{name} must be a string (for the shell) or a list of words; got {value!r}")


CONVERT: dict[str, Callable[[str, Any], object]] = {
    "name": _text,
    "command": _command,
    "env": pairs,
    "secret_env": _secrets,
    "image": _text,
    "mounts": _words,
    "shm_size_mb": _mebibytes,
    "read_only": _flag,
    "network": _text,
    "pull": _pull,
    "ignore_entrypoint": _flag,
    "container_cwd": _text,
    "cwd": _text,
    "cpu_request": _thousandths(quantities.MAX_CPU_MILLI),
    "mem_request_mb": _mebibytes,
    "cpu_limit": _thousandths(quantities.MAX_CPU_MILLI),
    "mem_limit_mb": _mebibytes,
    "disk_request_mb": _mebibytes,
    "gpu_request": _thousandths(quantities.MAX_GPU_MILLI),
    "gpu_type": _text,
    "gpu_memory_mb": _mebibytes,
    "exclusive": _flag,
    "generic": _amounts,
    "pool": _text,
    "node_selector": pairs,
    "node_rules": _rules,
    "tolerations": _words,
    "priority_class": _priority_class,
    "priority": _priority,
    "time_limit_s": _seconds,
    "max_wait_s": _seconds,
    "requeue": _flag,
    "once": _flag,
    "pty": _flag,
    "shared_tmp": _flag,
    "nodes": _tasks,
    "tasks": _tasks,
    "tasks_per_node": _tasks,
    "gpus_per_node": _tasks,
    "topology": _text,
    "groups": _groups,
    "fail_together": _flag,
    "on_return": _on_return,
    "grace_s": _seconds,
    "stop_signal": _stop_signal,
    "warn_signal": _warning,
    "warn_s": _seconds,
    "warn_main": _flag,
    "tenant_id": _text,
    **FILE_FIELDS,
    **TIME_FIELDS,
    **SERIES_FIELDS,
}
ALIASES = {
    **TIME_ALIASES,
    **SERIES_ALIASES,
    "cmd": "command",
    "environment": "env",
    "secret": "secret_env",
    "secrets": "secret_env",
    "mount": "mounts",
    "shm_size": "shm_size_mb",
    "workdir": "cwd",
    "cpus": "cpu_request",
    "num_cpus": "cpu_request",
    "memory": "mem_request_mb",
    "mem": "mem_request_mb",
    "memory_limit": "mem_limit_mb",
    "disk": "disk_request_mb",
    "gpus": "gpu_request",
    "num_gpus": "gpu_request",
    "gpu_model": "gpu_type",
    "gpu_memory": "gpu_memory_mb",
    "resource": "generic",
    "resources": "generic",
    "where": "node_rules",
    "tolerate": "tolerations",
    "class": "priority_class",
    "time": "time_limit_s",
    "time_limit": "time_limit_s",
    "max_wait": "max_wait_s",
    "grace": "grace_s",
    "signal": "warn_signal",
    "tenant": "tenant_id",
    "ntasks": "tasks",
    "ntasks_per_node": "tasks_per_node",
}


_FRIENDLY = {
    **TIME_FRIENDLY,
    **SERIES_FRIENDLY,
    "shm_size_mb": "shm_size",
    "cpu_request": "cpus",
    "mem_request_mb": "memory",
    "mem_limit_mb": "memory_limit",
    "disk_request_mb": "disk",
    "gpu_request": "gpus",
    "gpu_memory_mb": "gpu_memory",
    "priority_class": "class",
    "time_limit_s": "time",
    "max_wait_s": "max_wait",
    "grace_s": "grace",
    "warn_signal": "signal",
    "tenant_id": "tenant",
    "secret_env": "secrets",
}
_OF_GROUPS = frozenset(
    {
        "name", "tasks", "command", "env", "secret_env", "cwd", "cpu_request", "mem_request_mb", "cpu_limit",
        "mem_limit_mb", "disk_request_mb", "gpu_request", "gpu_type", "gpu_memory_mb", "exclusive", "generic",
        "pool", "node_selector", "node_rules", "tolerations",
    }
)  # fmt: skip
# What the API already knows by name and refuses: so that nobody looks for a typing error.
LATER: frozenset[str] = frozenset()
_ALIKE = 0.7  # below, a guess is worse than none
_OF_OTHERS = {"depends_on": "needs", "dependson": "needs", "partition": "pool", "job_name": "name"}
"""Keys of other formats that are not spelt alike."""


def field_of(key: str) -> str:
    """The API's name for a key or a flag."""
    return ALIASES.get(key, key)


def friendly(field: str) -> str:
    """The name that people use most for a field of the API."""
    return _FRIENDLY.get(field, field)


def job_fields(given: Mapping[str, object], where: str = "") -> dict[str, Any]:
    """The API's fields for what was given under friendly names. `where` leads the words of an error."""
    fields: dict[str, Any] = {}
    for key, value in given.items():
        try:
            more = _field(key, value, where)
        except (BadQuantityError, JobFieldError) as error:
            raise JobFieldError(str(error), key) from None
        if again := fields.keys() & more.keys():
            raise JobFieldError(f"{where}{key!r} says {min(again)} a second time; keep one of them", key)
        fields |= more
    return fields


def _field(key: str, value: object, where: str) -> dict[str, Any]:
    name = field_of(key)
    if name in LATER:
        raise JobFieldError(f"{where}{key} is not supported by this version yet; leave it out")
    if name not in CONVERT:
        raise JobFieldError(f"{where}unknown key {key!r}{_did_you_mean(key)}")
    said = f"{where}{key.replace('_', '-')}" if where == "--" else f"{where}{key}"
    meant = CONVERT[name](said, value)
    return meant if CONVERT[name] is _warning and isinstance(meant, dict) else {name: meant}


def _did_you_mean(key: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  only a slip needs it

    typed = key.lower().replace("-", "_")
    if typed in _OF_OTHERS:
        return f"; did you mean {_OF_OTHERS[typed]!r}?"
    near = get_close_matches(typed, [*CONVERT, *ALIASES], n=1, cutoff=_ALIKE)
    return (
        f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(sorted([*CONVERT, *ALIASES]))}"
    )
