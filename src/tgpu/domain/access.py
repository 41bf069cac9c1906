"""Who may do what in which part of the tree of tenants, and who did it."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum

EVERYWHERE = "*"
"""In place of a tenant: the whole cluster."""


class Role(IntEnum):
    """In rising order: a role may do what every role below it may, in its part of the tree."""

    VIEWER = 1
    """Sees jobs, their details and their output."""
    USER = 2
    """Submits jobs, and does with their own what they like."""
    OPERATOR = 3
    """Does so with everybody's jobs, and changes tenants, quotas and members below its own."""
    ADMIN = 4
    """Does everything, nodes, windows and settings included."""

    @property
    def word(self) -> str:
        return self.name.lower()


ROLES = {role.word: role for role in Role}


class Action(StrEnum):
    """What a token can be narrowed down to."""

    READ = "read"
    """Look at jobs, nodes, queues and reports; not at output."""
    LOGS = "logs"
    SUBMIT = "submit"
    CANCEL = "cancel"
    ENTER = "enter"
    """Run programs inside running jobs, and attach to their terminals."""
    MANAGE = "manage"
    """Tenants, members, quotas, tokens, nodes: what the role allows."""


@dataclass(frozen=True, slots=True)
class Member:
    """A user's role in a tenant and everybody below it, or everywhere."""

    user: str
    tenant_id: str
    """Or `EVERYWHERE`."""
    role: Role
    by: str = ""
    at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Actor:
    """Who changes something, for the audit log."""

    user: str
    via: str
    """`socket`, `token`, `session` (a browser's), `job 42` (by that job's key) or `server` (the installation
    itself)."""
    address: str = ""
    token_id: int | None = None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A change that was made: never changed, never removed."""

    audit_id: int
    at_ms: int
    actor: Actor
    action: str
    """Such as `tenant.update`."""
    target: str
    """What it was done to, such as `lab/vision`."""
    before: str
    """JSON; empty if there was nothing before."""
    after: str
    """JSON; empty if there is nothing after."""
