"""What the API asks of control, translated at the border: the API does not know control's errors."""

from collections.abc import Sequence

from tgpu.api.ports import LogUnavailableError, NoLeaderError
from tgpu.control.answers import Answers, NotLeadingError
from tgpu.control.hub import Hub, NodeAwayError
from tgpu.domain.job import Request
from tgpu.domain.views import NodeView, QueueView, Why


class LiveAnswers:
    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    async def why(self, job_id: int) -> Why | None:
        try:
            return await self._answers.why(job_id)
        except NotLeadingError as error:
            raise NoLeaderError(str(error)) from error

    async def queues(self) -> Sequence[QueueView]:
        try:
            return await self._answers.queues()
        except NotLeadingError as error:
            raise NoLeaderError(str(error)) from error

    async def nodes(self) -> Sequence[NodeView]:
        try:
            return await self._answers.nodes()
        except NotLeadingError as error:
            raise NoLeaderError(str(error)) from error

    async def never_fits(self, requests: Sequence[Request]) -> Sequence[str | None]:
        try:
            return await self._answers.never_fits(requests)
        except NotLeadingError as error:
            raise NoLeaderError(str(error)) from error


class HubLogs:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def read(  # noqa: PLR0917  a question has these parts
        self, node_id: str, attempt: str, stream: str, offset: int, max_bytes: int, wait_s: float
    ) -> tuple[int, bytes, bool]:
        try:
            chunk = await self._hub.read(node_id, attempt, stream, offset, max_bytes, wait_s)
        except NodeAwayError as error:
            raise LogUnavailableError(str(error)) from error
        if chunk.error:
            raise LogUnavailableError(chunk.error)
        return chunk.offset, chunk.data, chunk.at_end
