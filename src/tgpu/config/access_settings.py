"""The settings about who may speak for whom."""

from dataclasses import dataclass

from tgpu.config.setting import setting
from tgpu.domain.priority import USER_CLASSES


@dataclass(frozen=True, kw_only=True)  # without slots: `Settings` has several such parts
class AccessSettings:
    """A part of `Settings`."""

    job_keys: str = setting(
        "on",
        "`on`: a job on a node that is no server's own machine finds a key in TGPU_TOKEN, by which it does "
        "what its user may, while it runs. `off`: it finds none, and keys are refused.",
    )
    max_priority: int = setting(
        1000,
        "The highest priority that users may give their jobs, inside a class; they may lower it as far as "
        "they like. Operators and administrators may go up to 1000000.",
    )
    user_classes: tuple[str, ...] = setting(
        tuple(each.value for each in USER_CLASSES),
        "Priority classes that ordinary users may give their jobs in tenants for which neither `tgpu tenants "
        "set TENANT --classes` nor a tier says otherwise. Operators and administrators may use all classes "
        "there.",
    )
    web_session_hours: float = setting(
        168.0,
        "How long a browser stays signed in to the dashboard, in hours, up to 8784. Without TLS, sessions "
        "also end when the server stops.",
    )
    join_approval: str = setting(
        "off",
        "`on`: a node that joins gets no work until an administrator approves it with `tgpu nodes approve`. "
        "`off`: a join token is enough.",
    )


ACCESS_CHOICES = {"job_keys": ("on", "off"), "join_approval": ("on", "off")}
