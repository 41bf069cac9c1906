"""The SDK's calls about who may do what, and how much: tenants, quotas, members, tokens, secrets, audit log.

A change with `if_version` is refused (412) if somebody changed the tenant first; every answer about a tenant
has its `version`.
"""

from __future__ import annotations

from tgpu.client.calls import Calls

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

EVERYWHERE = "*"
"""In place of a tenant: the whole cluster."""
_PAGE = 500


class TenancyCalls(Calls):
    """Tenants are named as in `org/team/person`."""

    def whoami(self) -> dict[str, Any]:
        """The caller's name, home tenant, roles, and what their token is narrowed down to."""
        return self._dict("GET", "/whoami")

    def tenants(self) -> list[dict[str, Any]]:
        """All that the caller may see."""
        return self._list("/tenants", "tenants")

    def tenant_list(self) -> dict[str, Any]:
        """The same, as `tenants`, and whether they are `complete`: shares can be told only of all."""
        return self._dict("GET", "/tenants")

    def shares(self) -> dict[str, Any]:
        """The fair share of each of these `tenants` and what it holds now; the `total` of the cluster."""
        return self._dict("GET", "/shares")

    def tenant(self, tenant_id: str) -> dict[str, Any]:
        """With its quota, and in `effective` what holds for its jobs once all above it have had their say."""
        return self._dict("GET", f"/tenants/{tenant_id}")

    def create_tenant(
        self, /, tenant_id: str, *, force: bool = False, take_over: bool = False, **fields: object
    ) -> dict[str, Any]:
        """With weight, terms and limits; `force`: also limits on what no node has; `take_over`: also a name
        under which ended jobs are kept, and with it those."""
        query = {name: True for name, is_so in (("force", force), ("take_over", take_over)) if is_so} or None
        return self._dict("POST", "/tenants", query=query, body={"tenant_id": tenant_id, **fields})

    def change_tenant(
        self, /, tenant_id: str, *, if_version: int | None = None, **fields: object
    ) -> dict[str, Any]:
        """What is left out stays; None takes a term away, so that the parent's holds."""
        return self._dict("PATCH", f"/tenants/{tenant_id}", body=fields, if_version=if_version)

    def move_tenant(self, tenant_id: str, to: str, *, if_version: int | None = None) -> dict[str, Any]:
        """Another name, and with that perhaps another parent, for it and everybody below it; `notes` of the
        answer say what still has the old one."""
        return self._dict("POST", f"/tenants/{tenant_id}/move", body={"to": to}, if_version=if_version)

    def remove_tenant(self, tenant_id: str, *, if_version: int | None = None) -> dict[str, Any]:
        """Empty, or with `notes` of what still points there."""
        return self._dict("DELETE", f"/tenants/{tenant_id}", if_version=if_version)

    def quota(self, tenant_id: str) -> dict[str, Any]:
        return self._dict("GET", f"/tenants/{tenant_id}/quota")

    def change_quota(
        self, /, tenant_id: str, *, force: bool = False, if_version: int | None = None, **limits: object
    ) -> dict[str, Any]:
        """What is left out stays; None takes a limit away. `force`: also on what no node has."""
        query = {"force": True} if force else None
        path = f"/tenants/{tenant_id}/quota"
        return self._dict("PATCH", path, query=query, body=limits, if_version=if_version)

    def members(self, tenant_id: str | None = None) -> list[dict[str, Any]]:
        """Of one tenant, or all that the caller may see."""
        path = "/members" if tenant_id is None else f"/tenants/{tenant_id}/members"
        return self._list(path, "members")

    def set_member(self, user_id: str, tenant_id: str, role: str) -> dict[str, Any]:
        """Adds a user to a tenant (or `EVERYWHERE`), or gives them another role there."""
        return self._dict("PUT", _member(user_id, tenant_id), body={"role": role})

    def remove_member(self, user_id: str, tenant_id: str) -> None:
        self._dict("DELETE", _member(user_id, tenant_id))

    def tokens(self) -> list[dict[str, Any]]:
        return self._list("/tokens", "tokens")

    def create_token(self, /, **fields: object) -> dict[str, Any]:
        """The answer holds the token itself, this once."""
        return self._dict("POST", "/tokens", body=fields, once=True)

    def revoke_token(self, token_id: str) -> dict[str, Any]:
        return self._dict("DELETE", f"/tokens/{token_id}")

    def create_sign_in_link(self) -> dict[str, Any]:
        """The `url` signs a browser in to the dashboard as the caller, once, until `expires_at`."""
        return self._dict("POST", "/session/links", once=True)

    def secrets(self) -> list[dict[str, Any]]:
        """The names of the caller's secrets; nobody is shown what is in them."""
        return self._list("/secrets", "secrets")

    def set_secret(self, name: str, body: bytes) -> None:
        self._dict("PUT", f"/secrets/{name}", raw=body)

    def remove_secret(self, name: str) -> None:
        self._dict("DELETE", f"/secrets/{name}")

    def audit(self, /, *, limit: int | None = None, **filters: object) -> Iterator[dict[str, Any]]:
        """Who changed what, newest first, page after page. Filters: user, action, target, since, until."""
        cursor: object = None
        left = limit
        while left is None or left > 0:
            size = _PAGE if left is None else min(_PAGE, left)
            page = self._dict("GET", "/audit", query={**filters, "limit": size, "cursor": cursor})
            yield from page["entries"]
            cursor = page.get("next_cursor")
            if not cursor:
                return
            left = None if left is None else left - len(page["entries"])


def _member(user_id: str, tenant_id: str) -> str:
    return f"/members/{user_id}" if tenant_id == EVERYWHERE else f"/tenants/{tenant_id}/members/{user_id}"
