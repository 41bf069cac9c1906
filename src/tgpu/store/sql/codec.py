"""Nested things as JSON text, and back; equal requests, and equal names, come back as one object."""

from dataclasses import replace
from functools import lru_cache

import msgspec

from tgpu.domain.job import Exit, Gang, JobSpec, Request
from tgpu.domain.node import Node

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


def gang_from(text: str) -> Gang:
    return _gangs.decode(text)


def exit_from(text: str) -> Exit:
    return _exits.decode(text)


def node_from(text: str) -> Node:
    return _nodes.decode(text)


@lru_cache(maxsize=_KINDS_KEPT)
def devices_from(text: str) -> tuple[int, ...]:
    return _devices.decode(text)


def data_from(text: str) -> dict[str, object]:
    return _data.decode(text)
