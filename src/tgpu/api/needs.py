"""What an endpoint needs of its caller: the least role, where, and which action of a token's."""

from dataclasses import dataclass
from enum import Enum

from tgpu.domain.access import Action, Role


class Where(Enum):
    """Where the role is needed."""

    WHOEVER = "whoever"
    """Nowhere: everybody whom somebody vouches for may call it."""
    ANYWHERE = "anywhere"
    """In some tenant, whichever it is. What the call is about is judged by its handler."""
    OWN = "own"
    """The same; but it changes what is the caller's in every tenant: a token that is good in one will not
    do."""
    JOB = "job"
    """The job in the path is the caller's own, or they have `others` in its tenant as a member."""
    TENANT = "tenant"
    """In the tenant in the path."""
    ABOVE = "above"
    """In the parent of the tenant in the path: nobody changes their own tenant's due."""
    EVERYWHERE = "everywhere"
    """In the whole cluster."""


@dataclass(frozen=True, slots=True)
class Needs:
    role: Role
    action: Action
    where: Where
    others: Role | None = None
    """Of a job that is not the caller's own: the role in its tenant. None: what they see of it is enough."""


WHOEVER = Needs(Role.VIEWER, Action.READ, Where.WHOEVER)
LOOK = Needs(Role.VIEWER, Action.READ, Where.ANYWHERE)
LOOK_AT_JOB = Needs(Role.VIEWER, Action.READ, Where.JOB)
READ_OUTPUT = Needs(Role.VIEWER, Action.LOGS, Where.JOB, others=Role.VIEWER)
CANCEL_JOB = Needs(Role.USER, Action.CANCEL, Where.JOB, others=Role.OPERATOR)
CHANGE_JOB = Needs(Role.USER, Action.SUBMIT, Where.JOB, others=Role.OPERATOR)
RERUN_JOB = Needs(Role.USER, Action.SUBMIT, Where.JOB, others=Role.ADMIN)
ENTER_JOB = Needs(Role.USER, Action.ENTER, Where.JOB, others=Role.ADMIN)
CANCEL = Needs(Role.USER, Action.CANCEL, Where.ANYWHERE)
SUBMIT = Needs(Role.USER, Action.SUBMIT, Where.ANYWHERE)
MAKE_TOKEN = Needs(Role.USER, Action.MANAGE, Where.ANYWHERE)
MANAGE_OWN = Needs(Role.USER, Action.MANAGE, Where.OWN)
MANAGE_SOME = Needs(Role.OPERATOR, Action.MANAGE, Where.ANYWHERE)
MANAGE_BELOW = Needs(Role.OPERATOR, Action.MANAGE, Where.ABOVE)
SEE_MEMBERS = Needs(Role.VIEWER, Action.READ, Where.TENANT)
OVERSEE = Needs(Role.OPERATOR, Action.READ, Where.EVERYWHERE)
ADMINISTER = Needs(Role.ADMIN, Action.MANAGE, Where.EVERYWHERE)
SEE_ALL = Needs(Role.ADMIN, Action.READ, Where.EVERYWHERE)
