"""Somebody who goes on submitting while parts of the cluster fail."""

import threading
from typing import Self

from tests.end_to_end.cluster.whole_cluster import Cluster


class Submitting:
    """Submits a short job every tenth of a second, through these servers in turn, and keeps what failed."""

    def __init__(self, cluster: Cluster, at: list[int]) -> None:
        self._cluster, self._at = cluster, at
        self.jobs: list[int] = []
        self.failures: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._over.set()
        self._thread.join(60)

    def _go_on(self) -> None:
        while not self._over.wait(0.1):
            at = self._at[len(self.jobs) % len(self._at)]
            done = self._cluster.tgpu("submit", "--quiet", "--", "true", at=at, check=False)
            if done.returncode:
                self.failures.append(done.stderr)
            else:
                self.jobs.append(int(done.stdout.split()[-1]))
