"""A job of submitit that runs on tgpu: `42`, or `42_7` of an array."""

import time
from collections import defaultdict
from typing import Any

from submitit.core import core
from submitit.core.utils import DelayedSubmission, UncompletedJobError

from tgpu.client import Client, TgpuError, private_folder

_STATES = {
    "scheduled": "PENDING",
    "time-limit": "TIMEOUT",
    "out-of-memory": "OUT_OF_MEMORY",
    "node-lost": "NODE_FAIL",
}
"""In submitit's words, which are Slurm's: by status or, of what failed, by cause. Else the status itself."""
_ALREADY_ENDED = 409


class TgpuInfoWatcher(core.InfoWatcher):
    """Asks the server about all jobs at once, now and then."""

    def get_state(self, job_id: str, mode: str = "standard") -> str:
        return self.get_info(job_id, mode=mode).get("State") or "UNKNOWN"

    def update(self) -> None:
        asked = self._registered - self._finished
        if asked:
            self._num_calls += 1
            with Client() as client:
                self._info_dict.update(_looked_up(client, asked))
        self._last_status_check = time.time()
        self._finished |= {job_id for job_id in asked if self.is_done(job_id, mode="cache")}


class TgpuJob(core.Job[core.R]):
    watcher = TgpuInfoWatcher(delay_s=2)

    def cancel(self, check: bool = True) -> None:
        """What has ended stays as it is. `check`: raise if the server refuses."""
        job_id, index = parts(self.job_id)
        with Client() as client:
            try:
                if index is None:
                    client.cancel(job_id)
                else:
                    client.cancel_tasks(job_id, str(index))
            except TgpuError as error:
                if check and error.status != _ALREADY_ENDED:
                    raise

    def submission(self) -> DelayedSubmission:
        private_folder.check_file(self.paths.submitted_pickle)
        return super().submission()

    def _get_outcome_and_result(self) -> tuple[str, Any]:
        """A task without a result also says why: one that never began wrote nothing. Raises UnsafeFolderError
        for a result that another user could have written."""
        private_folder.check(self.paths.result_pickle.parent)
        if self.paths.result_pickle.exists():
            private_folder.check_file(self.paths.result_pickle)
        try:
            return super()._get_outcome_and_result()
        except UncompletedJobError as error:
            reason = self.get_info(mode="cache").get("Reason")
            if not reason:
                raise
            raise UncompletedJobError(f"tgpu says: {reason}\n{error}") from None

    def _interrupt(self, timeout: bool = False) -> None:
        """Stops it as a preemption does, to start anew; submitit's own tests call this."""
        if timeout:
            raise NotImplementedError("only time itself brings a task to its limit")
        job_id, index = parts(self.job_id)
        with Client() as client:
            client.retry(job_id, str(index or 0))


def parts(job_id: str) -> tuple[int, int | None]:
    """`42_7`: job 42, index 7."""
    number, _, index = job_id.partition("_")
    return int(number), int(index) if index else None


def _looked_up(client: Client, asked: set[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    arrays: defaultdict[int, set[int]] = defaultdict(set)
    alone = set()
    for job_id, index in map(parts, asked):
        if index is None:
            alone.add(job_id)
        else:
            arrays[job_id].add(index)
    ids = ",".join(map(str, sorted(alone)))
    for job in client.jobs(ids=ids) if ids else ():
        found[str(job["job_id"])] = _info(job, job["assigned_node_id"])
    for job_id, indices in arrays.items():
        for task in client.tasks(job_id, after=min(indices) - 1 if min(indices) else None):
            found[f"{job_id}_{task['array_index']}"] = _info(task, task["node_id"])
    return found


def _info(said: dict[str, Any], node: str | None) -> dict[str, str]:
    status = said["status"]
    word = said["cause"] if status == "failed" and said["cause"] in _STATES else status
    info = {"State": _STATES.get(word, status.upper()), "NodeList": node or ""}
    return info | {"Reason": said["reason"]} if said["reason"] else info
