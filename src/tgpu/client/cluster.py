"""The client's calls about nodes, servers and what they are set to."""

from __future__ import annotations

from tgpu.client.calls import Calls

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class ClusterCalls(Calls):
    def nodes(self) -> list[dict[str, Any]]:
        return self._list("/nodes", "nodes")

    def node(self, node_id: str) -> dict[str, Any]:
        """One of them, with what is on it."""
        return self._dict("GET", f"/nodes/{node_id}")

    def timeline(self, /, **asked: object) -> dict[str, Any]:
        """Attempts on nodes and devices in a window of time, and the starts that are planned. Asked: since,
        until, node_id, pool, limit, cursor."""
        return self._dict("GET", "/timeline", query=asked)

    def drain_nodes(
        self, nodes: Sequence[str] = (), *, where: Sequence[str] = (), reason: str = ""
    ) -> list[str]:
        """Nothing new starts on these nodes: by name, or all whose labels satisfy the rules."""
        body = {"nodes": list(nodes), "where": list(where), "reason": reason}
        return list(self._dict("POST", "/nodes/drain", body=body)["nodes"])

    def undrain_nodes(self, nodes: Sequence[str] = (), *, where: Sequence[str] = ()) -> list[str]:
        body = {"nodes": list(nodes), "where": list(where)}
        return list(self._dict("POST", "/nodes/undrain", body=body)["nodes"])

    def remove_nodes(self, nodes: Sequence[str]) -> list[str]:
        """Forgets nodes that are away and hold nothing; they would have to join anew."""
        return list(self._dict("POST", "/nodes/remove", body={"nodes": list(nodes)}, once=True)["nodes"])

    def approve_node(self, node_id: str) -> None:
        """Lets a node in that has joined and waits for approval."""
        self._dict("POST", f"/nodes/{node_id}/approve")

    def windows(self) -> list[dict[str, Any]]:
        return self._list("/windows", "windows")

    def create_window(self, /, **fields: object) -> dict[str, Any]:
        return self._dict("POST", "/windows", body=fields)

    def cancel_window(self, window_id: str) -> None:
        self._dict("DELETE", f"/windows/{window_id}")

    def queues(self) -> list[dict[str, Any]]:
        return self._list("/queues", "queues")

    def overview(self, *, terms: bool = False) -> dict[str, Any]:
        """Nodes and GPUs as columns, queues, resources and alerts. `terms`: with labels, taints and drain
        reasons."""
        return self._dict("GET", "/overview", query={"terms": terms or None})

    def utilization(
        self, *, since: str | None = None, node_id: str | None = None, points: int | None = None
    ) -> dict[str, Any]:
        """What jobs held and what agents measured over time, of the cluster or of one node."""
        query = {"since": since, "node_id": node_id, "points": points}
        return self._dict("GET", "/utilization", query=query)

    def node_activity(self, node_id: str) -> dict[str, Any]:
        """The tasks on a node, and the windows that keep it."""
        return self._dict("GET", f"/nodes/{node_id}/activity")

    def recent_events(self, *, limit: int | None = None) -> list[dict[str, Any]]:
        """The latest events, the newest first."""
        found = self._dict("GET", "/events/recent", query={"limit": limit})
        return list(found["events"])

    def stats(self) -> dict[str, Any]:
        return self._dict("GET", "/stats")

    def cluster(self) -> dict[str, Any]:
        """Its store, its servers, and who leads."""
        return self._dict("GET", "/cluster")

    def settings(self) -> list[dict[str, Any]]:
        """What the server was started with; only for administrators."""
        return self._list("/settings", "settings")

    def join_tokens(self) -> list[dict[str, Any]]:
        return self._list("/join-tokens", "join_tokens")

    def create_join_token(self, /, **fields: object) -> dict[str, Any]:
        """The answer holds the token itself, this once."""
        return self._dict("POST", "/join-tokens", body=fields, once=True)

    def revoke_join_token(self, token_id: str) -> dict[str, Any]:
        return self._dict("DELETE", f"/join-tokens/{token_id}")

    def authority(self) -> str:
        """The certificate (PEM) by which the cluster's servers are known."""
        return self._text("/ca.pem")

    def health(self) -> dict[str, Any]:
        """Whether the server is well. Raises TgpuError 503 if it is not."""
        return self._dict("GET", "/healthz")

    def metrics(self) -> str:
        """Figures of the server, as Prometheus reads them."""
        return self._text("/metrics")

    def openapi(self) -> dict[str, Any]:
        """The description of the server's API."""
        return self._dict("GET", "/openapi.json")
