"""Every refusal in one form: RFC 9457 problem details with a sentence that says what to do."""

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from starlette.responses import Response

from tgpu.api.edge import rfc3339
from tgpu.api.ports import LogUnavailableError, NoLeaderError
from tgpu.api.quota_words import quota_sentence
from tgpu.observe.disk_space import is_full
from tgpu.observe.logs import logger
from tgpu.store.access_port import (
    MisplacedTenantError,
    NameKeptError,
    TenantInUseError,
    TokenRevokedError,
    TokenSpentError,
)
from tgpu.store.needs_port import ChangedMeanwhileError, NotWaitingError, UnknownNeedError
from tgpu.store.port import (
    ArchivedTenantError,
    IdempotencyConflictError,
    StaleVersionError,
    StoreFullError,
    StoreUnavailableError,
    TenantExistsError,
    UnknownTenantError,
)
from tgpu.store.quota_port import QuotaExceededError

PROBLEM_TYPE = "application/problem+json"
_RETRY_S = "2"
_DISK_RETRY_S = "60"
_LOOKING = ("GET", "HEAD")
_log = logger("api")
_encode = msgspec.json.encode


class ProblemError(Exception):
    """A request that is refused, with the status, the kind and the sentence the caller gets."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        extras: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail = status, kind, detail
        self.headers = dict(headers or {})
        self.extras = dict(extras or {})

    def body(self) -> bytes:
        return _encode(
            {
                **self.extras,
                "type": f"urn:tgpu:problem:{self.kind}",
                "title": HTTPStatus(self.status).phrase,
                "status": self.status,
                "detail": self.detail,
            }
        )

    def response(self) -> Response:
        return Response(self.body(), status_code=self.status, media_type=PROBLEM_TYPE, headers=self.headers)


def bad_request(detail: str) -> ProblemError:
    return ProblemError(400, "bad-request", detail)


def unprocessable(field: str, detail: str) -> ProblemError:
    return ProblemError(422, "invalid-field", detail, extras={"field": field})


def forbidden(detail: str) -> ProblemError:
    return ProblemError(403, "forbidden", detail)


def not_found(detail: str) -> ProblemError:
    return ProblemError(404, "not-found", detail)


def disk_full(what: str) -> ProblemError:
    detail = (
        f"{what}: nothing was changed; ask an administrator to free some space on the server, then try again"
    )
    return ProblemError(507, "disk-full", detail, headers={"Retry-After": _DISK_RETRY_S})


def as_problem(error: Exception, method: str = "") -> ProblemError:
    """What a caller is told about this error; anything unforeseen is logged and told without details.
    `method`: of the request, if it is known: who only looks is not told that nothing was changed."""
    if isinstance(error, ProblemError):
        return error
    looks = method in _LOOKING
    known = _from_store(error) or _from_unavailable(error, looks=looks)
    if known is not None:
        return known
    _log.error("a request failed unexpectedly", exc_info=error)
    return ProblemError(500, "internal", "the server made a mistake; its log says which")


def _from_store(error: Exception) -> ProblemError | None:
    if isinstance(error, QuotaExceededError):
        sentence, numbers = quota_sentence(error)
        return ProblemError(409, "quota-exceeded", sentence, extras=numbers)
    if isinstance(error, StaleVersionError):
        return ProblemError(
            412,
            "stale-version",
            f"somebody changed it first: {error}; read it again, then decide",
            extras={"current_version": error.current},
        )
    for kind, (field, more) in _FIELDS.items():
        if isinstance(error, kind):
            return unprocessable(field, f"{field}: {more.format(error)}")
    for kind, (name, more) in _CONFLICTS.items():
        if isinstance(error, kind):
            return ProblemError(409, name, more.format(error))
    return None


def name_kept(error: NameKeptError, whose: str, instead: str) -> ProblemError:
    """`whose` the ended jobs would be, and what to do `instead`."""
    when = "" if error.removed_ms is None else f" on {rfc3339(error.removed_ms)[:10]}"
    return ProblemError(
        409,
        "name-kept",
        f"{error.tenant_id} was removed{when}; its ended jobs are still in the history under this name, and "
        f"would be those of {whose}: {instead}",
    )


_FIELDS: dict[type[Exception], tuple[str, str]] = {
    UnknownNeedError: ("after", "{}; `tgpu list --all` shows those there are"),
    MisplacedTenantError: ("to", "{}"),
    UnknownTenantError: ("tenant_id", "{}; `tgpu tenants` lists those that exist, an operator adds one"),
}
"""By what the store refuses: the field that is to blame, and the sentence."""
_CONFLICTS: dict[type[Exception], tuple[str, str]] = {
    TenantExistsError: ("tenant-exists", "{}; change that one, or choose another name"),
    TenantInUseError: ("tenant-in-use", "{}"),
    ArchivedTenantError: ("tenant-archived", "{}"),
    TokenSpentError: ("token-spent", "{}"),
    ChangedMeanwhileError: ("changed-meanwhile", "{}"),
    NotWaitingError: ("not-waiting", "{}; only what waits can be changed"),
    TokenRevokedError: ("token-revoked", "{}; use another token, or the socket"),
    IdempotencyConflictError: (
        "idempotency-conflict",
        "this Idempotency-Key was used for another request; use a new key for a new request",
    ),
}
"""By what the store refuses: the kind of problem, and the sentence."""


def _from_unavailable(error: Exception, *, looks: bool) -> ProblemError | None:
    """What may well work in a moment."""
    later = {"Retry-After": _RETRY_S}
    if isinstance(error, StoreFullError):
        return ProblemError(507, "disk-full", error.why if looks else str(error), headers=later)
    if is_full(error):
        return disk_full("the server's disk is full")
    if isinstance(error, StoreUnavailableError):
        return ProblemError(503, "store-unavailable", error.why if looks else str(error), headers=later)
    if isinstance(error, NoLeaderError):
        return ProblemError(503, "no-leader", str(error), headers=later)
    if isinstance(error, LogUnavailableError):
        return ProblemError(503, "log-unavailable", str(error), headers=later)
    return None


def inside(problem: ProblemError, at: str) -> ProblemError:
    """The same refusal, said of one job among many."""
    field = problem.extras.get("field", "")
    return ProblemError(
        problem.status,
        problem.kind,
        f"{at}.{problem.detail}",
        extras={**problem.extras, "field": f"{at}.{field}"},
    )
