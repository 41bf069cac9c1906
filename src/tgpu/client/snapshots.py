"""The client's calls about copies of code, and jobs that are run again in theirs."""

from __future__ import annotations

from tgpu.client.calls import Calls
from tgpu.client.errors import TgpuError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from typing import IO, Any

_PIECE = 4 << 20
_CONFLICT, _NOT_FOUND = 409, 404
_MOST_TRIES = 5


class SnapshotCalls(Calls):
    def put_snapshot(self, digest: str, file: IO[bytes], size: int) -> None:
        """Its bytes, a tar file packed by gzip: `digest` is `sha256:` and theirs. One that the server has
        already is not sent again."""
        path, tries, offset = f"/snapshots/{digest}", 0, 0
        if size > _PIECE and self._has(path):
            return
        while offset < size:
            file.seek(offset)
            query = {"offset": offset, "total": size}
            try:
                answer = self._dict("PUT", path, query=query, raw=file.read(_PIECE))
            except TgpuError as error:
                tries += 1
                if error.status != _CONFLICT or "received" not in error.problem or tries > _MOST_TRIES:
                    raise
                offset = int(error.problem["received"])  # another server begins, or somebody else has gone on
            else:
                if answer["complete"]:
                    return
                offset, tries = int(answer["received"]), 0

    def _has(self, path: str) -> bool:
        try:
            self.session.call("GET", path, query={"max_bytes": 0})
        except TgpuError as error:
            if error.status != _NOT_FOUND:
                raise
            return False
        return True

    def rerun(self, /, job_id: int, **changes: object) -> dict[str, Any]:
        """The same job once more: its code, its image, all that it asked for but what is changed here."""
        return self._dict("POST", f"/jobs/{job_id}/rerun", body=changes)
