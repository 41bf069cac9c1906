"""Who sees and may touch what of a job: its owner everything, an administrator nearly, others the outline."""

import re
from enum import Enum

from tgpu.api.identity import Caller
from tgpu.api.problems import ProblemError, forbidden
from tgpu.config.settings import Settings

MASK = "***"
_SECRET = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|KEY|CREDENTIAL|AUTH|COOKIE|_PWD|_PAT$|DSN|WEBHOOK", re.IGNORECASE
)


class Sight(Enum):
    """How much of a job is shown."""

    WHOLE = "whole"
    MASKED = "masked"
    """Everything, but secret-looking environment variables without their values."""
    OUTLINE = "outline"


def sight_of(owner: str, caller: Caller, settings: Settings) -> Sight:
    if owner == caller.user:
        return Sight.WHOLE
    if caller.is_admin or "details" in settings.others_may:
        return Sight.MASKED
    return Sight.OUTLINE


def masked(env: dict[str, str]) -> dict[str, str]:
    return {key: MASK if _SECRET.search(key) else value for key, value in env.items()}


def refusal_to_read_logs(owner: str, caller: Caller, settings: Settings, job_id: int) -> ProblemError | None:
    if owner == caller.user or caller.is_admin or "logs" in settings.others_may:
        return None
    return forbidden(f"job {job_id} belongs to {owner}: only {owner} and administrators may read its output")


def may_cancel(owner: str, caller: Caller, settings: Settings) -> bool:
    return owner == caller.user or caller.is_admin or "cancel" in settings.others_may


def refusal_to_cancel(owner: str, caller: Caller, settings: Settings, job_id: int) -> ProblemError | None:
    if may_cancel(owner, caller, settings):
        return None
    return forbidden(f"job {job_id} belongs to {owner}: only {owner} and administrators may cancel it")
