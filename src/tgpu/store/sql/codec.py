"""Nested things as JSON text, and back; equal requests, and equal names, come back as one object."""

from dataclasses import replace
from functools import lru_cache

import msgspec

from tgpu.domain.job import Exit, Gang, JobSpec, Request
from tgpu.domain.node import Node
from tgpu.domain.retries import Retries
from tgpu.domain.timing import Timing

# 100,000 waiting tasks are of a few kinds: each kind is decoded and kept once.
_KINDS_KEPT = 65_536
# So are their users, tenants and names; names that are all different are not worth keeping for long.
_NAMES_KEPT = 4096

_encoder = msgspec.json.Encoder()
_specs = msgspec.json.Decoder(JobSpec)
_requests = msgspec.json.Decoder(Request)
_gangs = msgspec.json.Decoder(Gang)
_exits = msgspec.json.Decoder(Exit)
_nodes = msgspec.json.Decoder(Node)
_timings = msgspec.json.Decoder(Timing)
_retries = msgspec.json.Decoder(Retries)
_devices = msgspec.json.Decoder(tuple[int, ...])
_data = msgspec.json.Decoder(dict[str, object])


def text_of(thing: object) -> str:
    return _encoder.encode(thing).decode()


def spec_from(text: str, tenant_id: str | None = None) -> JobSpec:
    """`tenant_id`: as the job's row has it, for a tenant can be given another name."""
    spec = _specs.decode(text)
    return spec if tenant_id in (None, spec.tenant_id) else replace(spec, tenant_id=tenant_id)


@lru_cache(maxsize=_KINDS_KEPT)
def request_from(text: str) -> Request:
    return _requests.decode(text)


@lru_cache(maxsize=_NAMES_KEPT)
def shared(name: str) -> str:
    """The same text, as the object it was the last time: the driver makes a new one for every row."""
    return name


@lru_cache(maxsize=_NAMES_KEPT)
def retries_from(text: str) -> Retries:
    return _retries.decode(text)


def gang_from(text: str) -> Gang:
    return _gangs.decode(text)


def timing_text(timing: Timing | None) -> str | None:
    return None if timing is None else text_of(timing)


@lru_cache(maxsize=_NAMES_KEPT)
def _timing(text: str) -> Timing:
    return _timings.decode(text)


def timing_from(text: str | None) -> Timing | None:
    return None if text is None else _timing(text)


def exit_from(text: str) -> Exit:
    return _exits.decode(text)


def node_from(text: str) -> Node:
    return _nodes.decode(text)


@lru_cache(maxsize=_KINDS_KEPT)
def devices_from(text: str) -> tuple[int, ...]:
    return _devices.decode(text)


def data_from(text: str) -> dict[str, object]:
    return _data.decode(text)
