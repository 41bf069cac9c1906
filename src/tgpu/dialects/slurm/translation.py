"""A job in Slurm's words, as the fields of tgpu's API."""

from __future__ import annotations

from functools import partial

from tgpu.dialects.slurm import durations, file_names
from tgpu.dialects.slurm.arrays import once_each
from tgpu.dialects.slurm.constraints import label_rules, node_rules
from tgpu.dialects.slurm.dependencies import needs
from tgpu.dialects.slurm.gres import licences
from tgpu.dialects.slurm.layout import layout_of
from tgpu.dialects.slurm.places import pool_of, tenant_of
from tgpu.dialects.slurm.refusal import SlurmError
from tgpu.dialects.slurm.sizes import mebibytes
from tgpu.dialects.slurm.sizes import written as size_written

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from typing import Any

    from tgpu.dialects.slurm.given import Given
    from tgpu.dialects.slurm.layout import Layout

_CLASSES = ("real-time", "high", "default", "low", "best-effort")
_MOST_PRIORITY = 1_000_000
_KEPT = (
    "account",
    "partition",
    "qos",
    "comment",
    "reservation",
    "dependency",
    "constraint",
    "nodelist",
    "exclude",
    "licenses",
    "export",
    "wckey",
    "cpus-per-task",
    "cpus-per-gpu",
    "gpus",
    "gpus-per-node",
    "gpus-per-task",
    "ntasks",
    "ntasks-per-node",
    "ntasks-per-gpu",
    "mem",
    "mem-per-cpu",
    "mem-per-gpu",
    "overcommit",
    "distribution",
    "threads-per-core",
    "profile",
    "gpu-bind",
    "gpu-freq",
    "nice",
    "gres",
)
"""What a job's environment and Slurm's own commands tell of, as it was written."""


class Around:
    """What a translation depends on beside the job: when it is made, and what there is to name."""

    def __init__(
        self,
        now: Callable[[], datetime],
        pools: Sequence[str] | None = None,
        tenants: Sequence[str] | None = None,
    ) -> None:
        """Of pools and tenants that nobody knows, names are taken as they are."""
        self.now, self.pools, self.tenants = now, pools, tenants


class Translated:
    def __init__(self, fields: dict[str, Any], layout: Layout, warnings: list[str]) -> None:
        self.fields, self.layout, self.warnings = fields, layout, warnings


def translated(given: Given, around: Around) -> Translated:
    """All but what is to run, where, and with which environment. Raises SlurmError."""
    layout = layout_of(given)
    warnings = [*given.warnings(), *layout.warnings]
    fields: dict[str, Any] = {"dialect": "slurm"}
    fields |= _resources(given, layout)
    fields |= _where_it_runs(given, layout, around, warnings)
    fields |= _when(given, around, warnings)
    fields |= _importance(given, warnings)
    fields |= _files(given)
    if (array := given.get("array")) is not None:
        fields["array"] = once_each(array.strip())
    if (dependency := given.get("dependency")) is not None:
        fields["after"] = _at(given, "dependency", lambda: needs("--dependency", dependency))
    if (given.get("kill-on-invalid-dep") or "yes").lower() == "no":
        where = given.where("kill-on-invalid-dep")
        warnings.append(f"{where}: --kill-on-invalid-dep=no has no effect: such a job is cancelled at once")
    if (name := given.get("job-name")) is not None:
        fields["name"] = name
    if (user := given.get("uid")) is not None:
        fields["user_id"] = user
    if given.has("requeue") or given.has("no-requeue"):
        fields["requeue"] = given.has("requeue")
    if given.has("no-kill") and given.get("no-kill") != "off" and layout.nodes > 1:
        fields["fail_together"] = False
    fields["annotations"] = _annotations(given, layout)
    return Translated(fields, layout, warnings)


def _resources(given: Given, layout: Layout) -> dict[str, Any]:
    fields: dict[str, Any] = {"cpu_request": layout.cpus}
    if layout.nodes > 1:
        fields["nodes"] = layout.nodes
    if layout.gpus:
        fields["gpu_request"] = layout.gpus
    if layout.model and layout.gpus:
        fields["gpu_type"] = layout.model
    if layout.memory_mib is not None:
        fields["mem_request_mb"] = layout.memory_mib
    if given.has("exclusive"):
        fields["exclusive"] = True
    if (text := given.get("tmp")) is not None:
        fields["disk_request_mb"] = _at(given, "tmp", lambda: mebibytes("--tmp", text))
    generic = dict(layout.generic)
    if (said := given.get("licenses")) is not None:
        generic |= _at(given, "licenses", lambda: licences("--licenses", said))
    return fields | ({"generic": generic} if generic else {})


def _where_it_runs(given: Given, layout: Layout, around: Around, warnings: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    rules: list[str] = node_rules(layout.hosts, given.get("exclude"))
    if (text := given.get("constraint")) is not None:
        rules += _at(given, "constraint", lambda: label_rules("--constraint", text))
    if rules:
        fields["node_rules"] = rules
    for name, field, find in (("partition", "pool", pool_of), ("account", "tenant_id", tenant_of)):
        said = given.get(name)
        if said is None:
            continue
        there = around.pools if name == "partition" else around.tenants
        found, note = _at(given, name, partial(find, said, there))
        if found is not None:
            fields[field] = found
        if note:
            warnings.append(f"{given.where(name)}: {note}")
    return fields


def _when(given: Given, around: Around, warnings: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    limit_s = None
    if (text := given.get("time")) is not None:
        limit_s = _at(given, "time", lambda: durations.time_limit_s("--time", text))
        if limit_s is not None:
            fields["time_limit_s"] = limit_s
    for name, field in (("begin", "begin_at"), ("deadline", "deadline_at")):
        if (said := given.get(name)) is not None:
            fields[field] = _at(given, name, partial(_moment, name, said, around))
    if given.has("hold"):
        fields["hold"] = True
    if (said := given.get("signal")) is not None:
        fields |= _at(given, "signal", lambda: _warning(given, said, limit_s, warnings))
    return fields


def _moment(name: str, text: str, around: Around) -> str:
    from tgpu.dialects.slurm import moments  # noqa: PLC0415  only who uses it

    return moments.rfc3339(moments.moment(f"--{name}", text, around.now()))


def _warning(given: Given, text: str, limit_s: int | None, warnings: list[str]) -> dict[str, Any]:
    from tgpu.domain.quantities import BadQuantityError  # noqa: PLC0415  only who uses it
    from tgpu.domain.signals import WARN_S, warning_parts  # noqa: PLC0415

    flags, colon, rest = text.rpartition(":")
    main = "B" in flags.upper()
    if colon and flags.upper().strip("BR"):
        raise SlurmError(f"--signal must be like B:USR1@120; got {text!r}")
    try:
        signal, before_s, _ = warning_parts("--signal", rest)
    except BadQuantityError as error:
        raise SlurmError(str(error)) from None
    if limit_s is None:
        warnings.append(f"{given.where('signal')}: --signal has no effect without a limit: say --time")
        return {}
    before_s = min(max(1, WARN_S if before_s is None else before_s), limit_s - 1)
    if not before_s:
        return {}
    return {"warn_signal": signal, "warn_s": before_s} | ({"warn_main": True} if main else {})


def _importance(given: Given, warnings: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if (qos := given.get("qos")) is not None:
        name = "default" if qos == "normal" else qos
        if name in _CLASSES:
            fields["priority_class"] = name
        else:
            warnings.append(
                f"{given.where('qos')}: --qos={qos} has no effect: there are {', '.join(_CLASSES)} and normal"
            )
    if (text := given.get("priority")) is not None:
        if not (text.isascii() and text.isdigit()):
            raise given.refuse("priority", f"must be a whole number; got {text!r}")
        fields["priority"] = min(int(text[:12]), _MOST_PRIORITY)
    elif given.has("nice"):
        text = given.get("nice") or "100"
        if not text.removeprefix("-").isdecimal():
            raise given.refuse("nice", f"must be a whole number; got {text!r}")
        fields["priority"] = -max(-_MOST_PRIORITY, min(int(text[:12]), _MOST_PRIORITY))
    return fields


def _files(given: Given) -> dict[str, Any]:
    default = file_names.OF_ARRAY if given.has("array") else file_names.OF_JOB
    fields: dict[str, Any] = {"output": default}
    for name in ("output", "error"):
        if (text := given.get(name)) is not None:
            read = partial(file_names.pattern, f"--{name}", text, array=given.has("array"))
            fields[name] = _at(given, name, read)
    if (mode := given.get("open-mode")) is not None:
        full = next((each for each in ("append", "truncate") if mode and each.startswith(mode.lower())), None)
        if full is None:
            raise given.refuse("open-mode", f"must be append or truncate; got {mode!r}")
        fields["open_mode"] = full
    return fields


def _annotations(given: Given, layout: Layout) -> dict[str, str]:
    kept = {name: given.get(name) or "1" for name in _KEPT if given.has(name)}
    kept |= {"tasks": str(layout.tasks), "nodes": str(layout.nodes)}
    if layout.gpus_per_task is not None:
        kept["gpus-per-task"] = str(layout.gpus_per_task)
    if "mem" in kept and layout.memory_mib is not None:
        kept["mem"] = size_written(layout.memory_mib)
    for name in {"mem-per-cpu", "mem-per-gpu"} & kept.keys():  # as jobs find it, in MiB
        kept[name] = str(mebibytes(f"--{name}", kept[name]))
    return kept


def _at(given: Given, name: str, read: Callable[[], Any]) -> Any:  # noqa: ANN401  whatever is read
    """With where it stands, if it is wrong."""
    try:
        return read()
    except SlurmError as error:
        raise error.at(given.where(name)) from None
