"""The client's calls about jobs that wait: held, released, changed, and waiting for each other."""

from __future__ import annotations

from tgpu.client.calls import Calls

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any


class ChangingCalls(Calls):
    def hold(self, job_id: int) -> dict[str, Any]:
        """What of it waits is not started until it is released."""
        return self._dict("POST", f"/jobs/{job_id}/hold")

    def release(self, job_id: int) -> dict[str, Any]:
        return self._dict("POST", f"/jobs/{job_id}/release")

    def hold_many(self, job_ids: Sequence[int]) -> dict[str, Any]:
        """What became of each: `held`, `refused`, `not_found`, `forbidden`."""
        return self._dict("POST", "/jobs/hold", body={"job_ids": list(job_ids)})

    def release_many(self, job_ids: Sequence[int]) -> dict[str, Any]:
        """What became of each: `released`, `refused`, `not_found`, `forbidden`."""
        return self._dict("POST", "/jobs/release", body={"job_ids": list(job_ids)})

    def edit(self, /, job_id: int, **changes: object) -> dict[str, Any]:
        """Changes a job that waits: time_limit_s, priority, gpu_request and so on; None takes away what may
        be absent."""
        return self._dict("PATCH", f"/jobs/{job_id}", body=changes)

    def graph(self, job_ids: Collection[int] = ()) -> dict[str, Any]:
        """Which jobs wait for which: `jobs` and `needs`. Without ids, of one's own that are live."""
        ids = ",".join(map(str, job_ids))
        return self._dict("GET", "/graph", query={"ids": ids} if ids else None)
