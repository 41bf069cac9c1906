"""Tokens as callers write and see them."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tgpu.api.edge import optional_gpu_hours, optional_rfc3339, rfc3339
from tgpu.api.problems import unprocessable
from tgpu.api.quota_form import MAX_GPU_HOURS, MAX_JOBS, gpu_ms_of
from tgpu.domain.access import ROLES, Action, Role
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quantities import BadQuantityError, whole
from tgpu.domain.tenant import GRAMMAR, TENANT_ID
from tgpu.store.access_port import Token

_DEFAULT_S = 30 * 24 * 3600
_MAX_S = 366 * 24 * 3600
_MAX_NOTE = 200


class TokenAsked(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A token to be made; by default for the caller, with the role `user`, for 30 days, for all it may do."""

    note: Annotated[str, Meta(description="What it is for.", extra_json_schema={"maxLength": _MAX_NOTE})] = ""
    role: Annotated[str, Meta(extra_json_schema={"enum": sorted(ROLES)})] = Role.USER.word
    expires_in_s: Annotated[
        int | float, Meta(extra_json_schema={"minimum": 1, "maximum": _MAX_S}, examples=[86400])
    ] = _DEFAULT_S
    user_id: Annotated[str | None, Meta(description="For somebody else: administrators only.")] = None
    tenant_id: Annotated[str | None, Meta(description="Good only in this tenant and below it.")] = None
    actions: Annotated[
        list[Action],
        Meta(
            description="Good only for these; none: for all that the role allows.",
            examples=[["read", "submit"]],
        ),
    ] = []
    highest_class: Annotated[
        PriorityClass | None, Meta(description="The most urgent class of jobs submitted with it.")
    ] = None
    jobs: Annotated[
        int | float | None,
        Meta(
            description="How many jobs may be submitted with it in all.",
            extra_json_schema={"minimum": 1, "maximum": MAX_JOBS},
        ),
    ] = None
    gpu_hours: Annotated[
        int | float | None,
        Meta(
            description="How many GPU-hours its jobs may use in all; each must have a time limit.",
            extra_json_schema={"minimum": 0.001, "maximum": MAX_GPU_HOURS},
        ),
    ] = None


class TokenOut(msgspec.Struct, kw_only=True):
    """A token, without the token."""

    token_id: int
    user_id: str
    role: str
    note: str
    created_at: str
    expires_at: str | None
    revoked: bool
    tenant_id: str | None
    actions: list[Action]
    highest_class: PriorityClass | None
    jobs_left: int | None
    gpu_hours_left: int | float | None
    parent_token_id: int | None
    """The token that it was made with: it ends with that."""


class ListedToken(TokenOut, kw_only=True):
    """A token that was made before."""

    has_account: bool
    """Whether its user has an account on the server that answers, and so has whoever made the tokens that it
    was made with. Without, it is refused, until there is such an account again."""


class NewToken(TokenOut, kw_only=True):
    """A token that was just made: `token` is never shown again."""

    token: str
    ends_with_parent: bool
    """It was to last longer, and expires with the token that it was made with."""


class TokenList(msgspec.Struct, kw_only=True):
    """The caller's tokens; for an administrator everybody's."""

    tokens: list[ListedToken]


asked_token = msgspec.json.Decoder(TokenAsked)


def is_capped(token: Token) -> bool:
    """Such a token makes no others, which could spend its cap again."""
    return not (token.highest_class is None and token.jobs_left is None and token.gpu_ms_left is None)


def token_fields(token: Token) -> dict[str, Any]:
    return {
        "token_id": token.token_id,
        "user_id": token.user,
        "role": token.role,
        "note": token.note,
        "created_at": rfc3339(token.created_ms),
        "expires_at": optional_rfc3339(token.expires_ms),
        "revoked": token.revoked,
        "tenant_id": token.tenant_id,
        "actions": sorted(token.actions),
        "highest_class": token.highest_class,
        "jobs_left": token.jobs_left,
        "gpu_hours_left": optional_gpu_hours(token.gpu_ms_left),
        "parent_token_id": token.parent_id,
    }


def token_to_make(asked: TokenAsked, caller: str, digest: str, now_ms: int) -> Token:
    """Raises ProblemError for what cannot be meant, whoever asks."""
    if len(asked.note) > _MAX_NOTE or not (asked.note.isprintable() or not asked.note):
        raise unprocessable("note", f"note must be at most {_MAX_NOTE} printable characters")
    if asked.role not in ROLES:
        raise unprocessable("role", f"role must be one of {', '.join(ROLES)}; got {asked.role[:40]!r}")
    if asked.tenant_id is not None and not TENANT_ID.fullmatch(asked.tenant_id):
        raise unprocessable("tenant_id", f"tenant_id must be {GRAMMAR}; got {asked.tenant_id[:80]!r}")
    gpu_ms = gpu_ms_of("gpu_hours", asked.gpu_hours)
    if gpu_ms == 0:
        raise unprocessable("gpu_hours", "gpu_hours must be more than 0; leave it out for no cap")
    return Token(
        token_id=0,
        user=caller if asked.user_id is None else asked.user_id,
        role=asked.role,
        digest=digest,
        note=asked.note,
        created_ms=now_ms,
        expires_ms=now_ms + 1000 * _at_least_one("expires_in_s", asked.expires_in_s, _MAX_S),
        tenant_id=asked.tenant_id,
        actions=frozenset(asked.actions),
        highest_class=asked.highest_class,
        jobs_left=None if asked.jobs is None else _at_least_one("jobs", asked.jobs, MAX_JOBS),
        gpu_ms_left=gpu_ms,
    )


def _at_least_one(name: str, value: float, most: int) -> int:
    try:
        number = whole(name, value, most)
    except BadQuantityError as error:
        raise unprocessable(name, str(error)) from None
    if number < 1:
        raise unprocessable(name, f"{name} must be at least 1")
    return number
