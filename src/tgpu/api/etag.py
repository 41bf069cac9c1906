"""Versions at the edge: what one reads has an ETag, and what one changes may ask that it still has it."""

from tgpu.api.endpoint import Call
from tgpu.api.problems import ProblemError, bad_request
from tgpu.domain.tenant import Tenant


def etag(tenant: Tenant) -> dict[str, str]:
    return {"ETag": f'"{tenant.version}"'}


def wanted_version(call: Call, current: int) -> int | None:
    """What If-Match asks for; None if any version will do. Raises ProblemError if it is past already."""
    written = call.request.headers.get("if-match")
    if written is None or written.strip() == "*":
        return None
    tags = [tag.strip() for tag in written.split(",")]
    for tag in tags:
        if not (tag.startswith(('"', 'W/"')) and tag.endswith('"') and len(tag) > 1):
            raise bad_request('If-Match must be an ETag in quotes, such as "3", or *')
    if f'"{current}"' in tags:
        return current
    raise ProblemError(
        412,
        "stale-version",
        f"somebody changed it first: the version is {current} by now; read it again, then decide",
        extras={"current_version": current},
    )
