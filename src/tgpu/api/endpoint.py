"""What one endpoint is: its path, who may call it, what it takes, what it answers.

The same record makes the route, guards it and documents it, so the three cannot disagree.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tgpu.api.access_book import Book
from tgpu.api.identity import Caller, Identity
from tgpu.api.needs import Needs
from tgpu.api.peercred import peer_of
from tgpu.api.query import Query
from tgpu.api.services import Services
from tgpu.domain.access import Actor
from tgpu.domain.job import Job

_TENANT_DEPTH = 8  # as deep as domain.tenant.TENANT_ID goes


@dataclass(frozen=True, slots=True)
class Call:
    """One request, with everything a handler needs."""

    services: Services
    request: Request
    query: Query
    identity: Identity
    found: Job | None = None

    @property
    def job(self) -> Job:
        """The one in the path, if the endpoint has one: the caller may do with it what that does."""
        assert self.found is not None
        return self.found

    @property
    def book(self) -> Book:
        return self.identity.book

    @property
    def actor(self) -> Actor:
        return self.caller.actor

    @property
    def caller(self) -> Caller:
        caller: Caller = self.request.scope["tgpu.caller"]  # set by the gate
        return caller

    @property
    def is_local(self) -> bool:
        """Whether it came over the socket, and so from this machine."""
        return peer_of(self.request.scope) is not None

    def path(self, name: str) -> str:
        return str(self.request.path_params[name])

    def tenant_id(self) -> str:
        """Its levels, put together again."""
        params = self.request.path_params
        return "/".join(str(level) for name, level in params.items() if name.startswith("level_"))


Handler = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter in the query, the path or a header."""

    name: str
    text: str
    schema: Mapping[str, object]
    example: object
    where: str = "query"
    required: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What a caller gets when all goes well."""

    text: str
    kind: Any = None
    """A type that msgspec knows, or a tuple of them; None when there is no JSON body."""
    example: object = None
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    as_text: Mapping[str, str] = field(default_factory=dict)
    """Other types of media that it can be asked for in, with an example of each."""


@dataclass(frozen=True, slots=True)
class Body:
    """What a caller sends: one of these kinds, with an example of each."""

    kinds: tuple[Any, ...]
    """Types that msgspec knows; none if it is taken as it is."""
    examples: Mapping[str, object]
    media_type: str = "application/json"
    required: bool = True
    """Else nothing at all means the same as an empty object."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    method: str
    path: str
    handler: Handler
    needs: Needs | None
    """Of its caller; None: anybody may call it, without saying who they are."""
    tag: str
    summary: str
    text: str
    answers: Mapping[int, Answer]
    errors: tuple[int, ...] = ()
    """Beyond those that every endpoint may give."""
    params: tuple[Param, ...] = ()
    body: Body | None = None
    adds_data: bool = False
    """It stores something new of users': refused while the disk of the store has less than its reserve."""

    @property
    def query_names(self) -> frozenset[str]:
        return frozenset(param.name for param in self.params if param.where == "query")

    @property
    def routes(self) -> list[str]:
        """The router's paths. It knows no parameter with slashes in the middle, so a tenant's levels are
        spelled out."""
        if "{tenant_id}" not in self.path:
            return [self.path]
        levels = ["/".join(f"{{level_{n}}}" for n in range(depth)) for depth in range(1, _TENANT_DEPTH + 1)]
        return [self.path.replace("{tenant_id}", level) for level in levels]
