"""The client's calls that ask who used how much."""

from __future__ import annotations

from tgpu.client.calls import Calls

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from typing import Any


class AccountingCalls(Calls):
    def report(self, /, **asked: object) -> dict[str, Any]:
        """What attempts were given and used, added up: its `rows` and their `total`. Asked: by (default:
        user; or tenant, pool, gpu-type, class, node, cause, day, week, month, several with commas), since,
        until, user, tenant, depth, pool, gpu_type, detail."""
        return self._dict("GET", "/report", query=asked)
