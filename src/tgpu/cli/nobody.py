"""Why nothing was found: a name that nobody has is told as such, not as an empty answer."""

from __future__ import annotations

from tgpu.cli.exits import NOT_FOUND, CommandError
from tgpu.client.errors import TgpuError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from tgpu.client import Client

_NO_SUCH = 404


def check_names(client: Client, *, tenants: str | None, users: str | None) -> None:
    """Asked once an answer is empty: what a removed tenant used is still under its name, so not before."""
    for tenant_id in _named(tenants):
        try:
            client.tenant(tenant_id)
        except TgpuError as error:
            if error.status != _NO_SUCH:
                raise
            text = f"there is no tenant {tenant_id!r} that you may see; `tgpu tenants` lists them"
            raise CommandError(text, NOT_FOUND) from None
    for user in _named(users):
        if user != "me" and not next(client.jobs(user=user, limit=1), None):
            text = f"there is no user {user!r} with jobs that you may see, ended or not"
            raise CommandError(text, NOT_FOUND)


def _named(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]
