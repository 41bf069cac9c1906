"""A line of the audit log for a change that the store does not note by itself."""

import msgspec

from tgpu.api.endpoint import Call

_encode = msgspec.json.Encoder(order="sorted").encode


async def note(call: Call, action: str, target: str, *, before: object = None, after: object = None) -> None:
    """Called once the change is durable. None: there was nothing, or there is nothing any more."""
    services = call.services
    await services.store.note(call.actor, action, target, _text(before), _text(after), services.now_ms())


def _text(facts: object) -> str:
    return "" if facts is None else _encode(facts).decode()
