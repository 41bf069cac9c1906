"""The client's calls about some tasks of a job, and about jobs that pause."""

from __future__ import annotations

from tgpu.client.calls import Calls

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class SeriesCalls(Calls):
    def cancel_tasks(self, job_id: int, indices: str, *, now: bool = False) -> dict[str, Any]:
        """Some tasks of an array, by their indices, such as `3-9`."""
        body: dict[str, Any] = {"indices": indices}
        return self._dict("POST", f"/jobs/{job_id}/cancel", body=body | {"now": True} if now else body)

    def retry(
        self, job_id: int, indices: str | None = None, after: list[str] | None = None
    ) -> dict[str, Any]:
        """What runs and is named starts anew (`restarted`). What failed or was cancelled, and what completed
        if it is named, becomes a new job, `job_id`; it waits for what the other waited for, or for
        what did that again since. `after`: for this instead."""
        said = {"indices": indices, "after": after}
        body = {name: value for name, value in said.items() if value is not None}
        return self._dict("POST", f"/jobs/{job_id}/retry", body=body, once=True)

    def retry_many(self, job_ids: Sequence[int]) -> dict[str, Any]:
        """What became of each: `retried`, `refused`, `not_found`, `forbidden`."""
        return self._dict("POST", "/jobs/retry", body={"job_ids": list(job_ids)}, once=True)

    def suspend(self, job_id: int) -> dict[str, Any]:
        """What runs is stopped, to start anew once it is resumed; what waits is not started."""
        return self._dict("POST", f"/jobs/{job_id}/suspend")

    def resume(self, job_id: int) -> dict[str, Any]:
        return self._dict("POST", f"/jobs/{job_id}/resume")
