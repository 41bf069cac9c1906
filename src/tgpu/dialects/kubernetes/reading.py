"""A document of a file to a manifest's shape: what cannot be honoured is refused by its path, all at once."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import msgspec

from tgpu.dialects.kubernetes.field import Field, Table, Verdict
from tgpu.dialects.kubernetes.misfits import misfits
from tgpu.dialects.kubernetes.problems import ManifestError, Refusal, refused
from tgpu.dialects.kubernetes.shape import Job
from tgpu.dialects.kubernetes.tables import TABLES

API_VERSION, KIND = "batch/v1", "Job"
_EMPTY: tuple[object, ...] = ({}, [], "")
_LONGEST_SHOWN = 80
_NO_JOBS = {
    "CronJob": "submit its jobTemplate as a Job, and let cron do that",
    "Pod": "write it as the template of a Job",
    "JobList": "write its items as documents of their own, with `---` between them",
    "List": "write its items as documents of their own, with `---` between them",
}


def manifest(document: Mapping[str, Any]) -> Job:
    """Raises ManifestError."""
    _check_kind(document)
    refusals: list[Refusal] = []
    said = _said(document, TABLES["Job"], "", refusals)
    wrong = list(misfits(said, Job))
    # In what has another shape than it must have, no name says anything.
    above = tuple(f"{refusal.path}." for refusal in wrong)
    refusals = [refusal for refusal in refusals if not refusal.path.startswith(above)] + wrong
    if refusals:
        raise ManifestError(refusals)
    return msgspec.convert(said, Job)


def _check_kind(document: Mapping[str, Any]) -> None:
    kind, version = document.get("kind"), document.get("apiVersion")
    for name, said, wanted in (("kind", kind, KIND), ("apiVersion", version, API_VERSION)):
        if said is None:
            raise refused(name, f"is missing: say {name}: {wanted}")
    if kind != KIND:
        as_written = str(kind).lower() == KIND.lower()
        hint = f"write it {KIND}" if as_written else _NO_JOBS.get(str(kind), "leave it out")
        raise refused("kind", f"must be {KIND}; got {str(kind)[:_LONGEST_SHOWN]!r}: {hint}")
    if version != API_VERSION:
        raise refused("apiVersion", f"must be {API_VERSION}; got {str(version)[:_LONGEST_SHOWN]!r}")


def _said(given: Mapping[Any, Any], table: Table, path: str, refusals: list[Refusal]) -> dict[str, Any]:
    """What it says that means something here: neither what is null nor what asks for nothing."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        at = f"{path}.{name}" if path else str(name)
        field = table.get(name) if isinstance(name, str) else None
        if field is None:
            refusals.append(Refusal(at[:200], _unknown(name, table)))
        elif value is None:
            continue
        elif field.verdict is not Verdict.REFUSED:
            found[str(name)] = _inside(value, field, at, refusals)
        elif not _asks_for_nothing(value, field):
            refusals.append(Refusal(at, field.words))
    return found


def _inside(value: object, field: Field, path: str, refusals: list[Refusal]) -> object:
    """The same of what stands in it; what has another shape than it must have is told by its type later."""
    if field.of is None:
        return _without_nulls(value)
    table = TABLES[field.of]
    if isinstance(value, dict):
        return _said(value, table, path, refusals)
    if isinstance(value, list):
        if field.only_one and len(value) > 1:
            refusals.append(Refusal(f"{path}[1]", field.only_one))
        return [
            _said(one, table, f"{path}[{at}]", refusals) if isinstance(one, dict) else one
            for at, one in enumerate(value)
        ]
    return value


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {key: one for key, one in value.items() if one is not None}
    return value


def _asks_for_nothing(value: object, field: Field) -> bool:
    return any(type(value) is type(one) and value == one for one in (*_EMPTY, *field.unless))


def _unknown(name: object, table: Table) -> str:
    near = get_close_matches(str(name), table, n=1)
    return (
        f"is no field of a Job manifest; did you mean {near[0]}?" if near else "is no field of a Job manifest"
    )
