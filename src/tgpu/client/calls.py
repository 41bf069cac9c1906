"""What every group of the client's calls is made of: a session, and answers that are objects or lists."""

from __future__ import annotations

from tgpu.client.errors import TgpuError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from typing import Any

    from tgpu.client.session import Session


class Calls:
    """Over one session."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def _list(self, path: str, name: str, **call: Any) -> list[dict[str, Any]]:  # noqa: ANN401  as Session.call
        return list(self._dict("GET", path, **call)[name])

    def _dict(self, method: str, path: str, **call: Any) -> dict[str, Any]:  # noqa: ANN401  as Session.call
        answer = self.session.call(method, path, **call)
        if not isinstance(answer, dict):
            raise TgpuError(502, "Not tgpu", f"{self.session.address} does not speak as a tgpu server does")
        return answer

    def _text(self, path: str) -> str:
        connection, response = self.session.stream(path, {})
        try:
            return response.read().decode("utf-8", "replace")
        finally:
            connection.close()
