"""POST /job-files: the text of a job file, read into the jobs that it describes."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
from starlette.responses import Response

from tgpu.api.access import shown_tenants
from tgpu.api.decode import MIB, decode, read_body
from tgpu.api.edge import decimal
from tgpu.api.endpoint import Answer, Body, Call, Endpoint
from tgpu.api.job_form import JobAsked
from tgpu.api.needs import LOOK, SUBMIT
from tgpu.api.ports import NoLeaderError
from tgpu.api.priority_classes import classes_anywhere
from tgpu.api.problems import ProblemError
from tgpu.api.reply import json_reply
from tgpu.api.terms import in_order
from tgpu.dialects import job_text
from tgpu.dialects.job_text import Format, JobText, Surroundings
from tgpu.dialects.native.fields import CONVERT, friendly
from tgpu.dialects.slurm.moments import local_now
from tgpu.dialects.slurm.translation import Around
from tgpu.domain.views import NodeView

_MAX_BODY = 4 * MIB
"""A text of 1 MiB, with what JSON adds to it."""
_MAX_NAME = 100
_MAX_TEXT = 500
"""Of one problem."""


class JobFileAsked(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The text of a job file."""

    text: str
    """YAML in tgpu's own form, a script with `#SBATCH` lines, or Kubernetes Job manifests; at most 1 MiB."""
    name: str = ""
    """Of the file, if it has one: a script's job is called so."""


class JobFileProblem(msgspec.Struct, kw_only=True):
    """What is wrong in one place, and what to do."""

    text: str
    line: int | None
    path: str
    """Of the key in its job or manifest; empty if it has none."""
    job: int | None
    """Of which job in the text, counted from 0."""


class JobFileOut(msgspec.Struct, kw_only=True):
    """The jobs of a job file, each as `POST /jobs` takes it; none if there are problems."""

    format: Format
    jobs: Sequence[Mapping[str, Any]]
    warnings: list[str]
    problems: list[JobFileProblem]


class JobField(msgspec.Struct, kw_only=True):
    """One field of a job, for forms."""

    name: str
    """In the API."""
    key: str
    """In a job file, and on the command line."""
    text: str
    """What it means."""
    choices: list[str] = []
    """The only values, if there are only some."""
    minimum: int | float | None = None
    maximum: int | float | None = None
    default: Any = None


class JobFields(msgspec.Struct, kw_only=True):
    """The fields of a job that can be written in a job file."""

    fields: list[JobField]


_asked = msgspec.json.Decoder(JobFileAsked)


@cache
def job_fields() -> JobFields:
    """From the schema of `POST /jobs`, under the names of job files."""
    _, parts = msgspec.json.schema_components([JobAsked], ref_template="{name}")
    known = {name: _described(schema, parts) for name, schema in parts["JobAsked"]["properties"].items()}
    return JobFields(
        fields=[
            JobField(
                name=name,
                key=friendly(name),
                text=known[name].get("description", ""),
                choices=known[name].get("enum", []),
                minimum=known[name].get("minimum"),
                maximum=known[name].get("maximum"),
                default=known[name].get("default"),
            )
            for name in known
            if name in CONVERT
        ]
    )


def _described(schema: Mapping[str, Any], parts: Mapping[str, Any]) -> dict[str, Any]:
    """With what its alternatives, and the parts that it refers to, say of it."""
    found: dict[str, Any] = {}
    for each in schema.get("anyOf", ()):
        found = _described(each, parts) | found
    if "$ref" in schema and "enum" in (part := parts[schema["$ref"]]):
        found["enum"] = part["enum"]
    return found | {name: value for name, value in schema.items() if name not in ("anyOf", "$ref")}


async def list_job_fields(call: Call) -> Response:
    classes = in_order(classes_anywhere(call.caller, await call.book.pages()))
    fields = [
        msgspec.structs.replace(field, choices=list(classes)) if field.name == "priority_class" else field
        for field in job_fields().fields
    ]
    return json_reply(JobFields(fields=fields))


async def read_job_file(call: Call) -> Response:
    asked = decode(_asked, await read_body(call, _MAX_BODY))
    if len(asked.text.encode("utf-8", "surrogatepass")) > MIB:
        raise ProblemError(413, "too-large", "text may have at most 1 MiB; submit fewer jobs at once")
    async with call.services.turns.turn(call.caller.user):
        surroundings = await _surroundings(call, asked.text)
        # A long text takes seconds: other requests are served meanwhile.
        found = await asyncio.to_thread(job_text.read, asked.text, _job_name(asked.name), surroundings)
    return json_reply(_out(found))


def _job_name(file_name: str) -> str:
    """Without folders, and without what no job may be called."""
    name = file_name.replace("\\", "/").rpartition("/")[2]
    return "".join(char for char in name if char.isprintable())[:_MAX_NAME]


async def _surroundings(call: Call, text: str) -> Surroundings:
    """Nodes and tenants are asked for only if the text may be a script for Slurm."""
    pools: list[str] | None = None
    tenants: list[str] | None = None
    nodes: list[dict[str, Any]] = []
    if "#SBATCH" in text:
        try:
            nodes = [_node(view) for view in await call.services.live.nodes()]
            pools = sorted({str(node["pool"]) for node in nodes})
        except NoLeaderError:
            pass  # names of pools are taken as they are
        shown = await shown_tenants(call)
        tenants = sorted((await call.book.pages()).tenants if shown is None else shown)
    around = Around(local_now, pools, tenants)
    return Surroundings(around, lambda: nodes, call.caller.account.home, os.urandom(16).hex())


def _node(view: NodeView) -> dict[str, Any]:
    capacity = view.node.capacity
    return {
        "node_id": view.node.node_id,
        "pool": view.node.pool,
        "cpu_total": decimal(capacity.cpu_milli),
        "mem_total_mb": capacity.memory_mib,
        "gpu_total": decimal(capacity.gpu_milli),
    }


def _out(found: JobText) -> JobFileOut:
    return JobFileOut(
        format=found.format,
        jobs=found.jobs,
        warnings=found.warnings,
        problems=[
            JobFileProblem(**each._replace(text=_shortened(each.text))._asdict()) for each in found.problems
        ],
    )


def _shortened(text: str) -> str:
    """A sentence quotes what it is about, which may be long."""
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT // 2]} … {text[-_MAX_TEXT // 2 :]}"


_TEXT = "name: train\ncommand: python train.py\ngpus: 1\ntime: 2h\n"
ENDPOINTS = (
    Endpoint(
        "GET",
        "/job-fields",
        list_job_fields,
        LOOK,
        "jobs",
        "List the fields of a job",
        "For forms: what each is called in the API and in job files, what it means, and its values. Priority "
        "classes are those that the caller may use in at least one tenant.",
        {
            200: Answer(
                "The fields.",
                JobFields,
                {
                    "fields": [
                        {
                            "name": "gpu_request",
                            "key": "gpus",
                            "text": "GPUs to reserve: a fraction below 1, or a whole number.",
                            "choices": [],
                            "minimum": 0,
                            "maximum": 100000,
                            "default": 0,
                        }
                    ]
                },
            )
        },
    ),
    Endpoint(
        "POST",
        "/job-files",
        read_job_file,
        SUBMIT,
        "jobs",
        "Read a job file",
        "Finds the form of the text, and answers the jobs in it in the fields of `POST /jobs`, or what is "
        "wrong in which line. Nothing is submitted, and no file is read. A dry run checks jobs "
        "against the cluster.",
        {
            200: Answer(
                "What is in the text.",
                JobFileOut,
                {
                    "format": "tgpu",
                    "jobs": [
                        {
                            "name": "train",
                            "command": "python train.py",
                            "gpu_request": 1,
                            "time_limit_s": 7200,
                        }
                    ],
                    "warnings": [],
                    "problems": [],
                },
            )
        },
        errors=(413, 422, 429),
        body=Body((JobFileAsked,), {"a job file": {"text": _TEXT, "name": "train.yaml"}}),
    ),
)
