"""Submitters who all want more than there is: each has a connection and a schedule of its own."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

MODEL = "Simulated"
TENANTS = {
    "lab": {"gpu_limit": 10, "cpu_limit": 40, "running_jobs_limit": 24, "waiting_jobs_limit": 60},
    "lab/ann": {"gpu_type_limits": {MODEL: 3}, "mem_limit_mb": 300},
    "lab/bob": {"over_quota": "queue", "gpu_limit": 6, "waiting_jobs_limit": 20, "gpu_hours_limit": 0.7},
    "lab/cat": {"over_quota": "queue", "cpu_limit": 5},
    "lab/dan": {"cpu_limit": 8, "gpu_limit": 5, "waiting_jobs_limit": 15},
}
"""Two take all that fits, two let it wait; together they may have more than their parent."""
LEAVES = tuple(tenant for tenant in TENANTS if "/" in tenant)
NUMBERS = {"tenant_id", "resource", "limit", "used", "burst", "asked", "would_fit"}
RECENT = 40
"""How far back somebody looks who cancels what others submitted."""


@dataclass(slots=True)
class Answers:
    """What all submitters together sent, and were told."""

    sent: Counter[str] = field(default_factory=Counter)
    taken: list[int] = field(default_factory=list)
    """The jobs."""
    arrays: list[int] = field(default_factory=list)
    """Those of them that are arrays."""
    submitted: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """By tenant and resource."""
    cancelled: set[int] = field(default_factory=set)
    """The jobs that somebody asked to cancel while they lived."""
    odd: list[str] = field(default_factory=list)
    """Whatever should not have been said."""


class Connection:
    """HTTP on a server's socket, one request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, socket: Path) -> "Connection":
        return cls(*await asyncio.open_unix_connection(socket))

    async def post(self, path: str, body: object) -> tuple[int, dict[str, Any]]:
        raw = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(raw)}\r\n\r\n"
        self._writer.write(head.encode() + raw)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(answer.partition("content-length:")[2].split("\r\n")[0])
        return int(answer.split()[1]), json.loads(await self._reader.readexactly(length))

    def close(self) -> None:
        self._writer.close()


class Submitter:
    def __init__(self, connection: Connection, answers: Answers, chance: Random, cwd: Path) -> None:
        self._connection, self._answers, self._chance, self._cwd = connection, answers, chance, cwd

    async def submit(self) -> None:
        jobs = [self._job() for _ in range(self._chance.choice((1, 1, 1, 2, 3)))]
        self._answers.sent["submissions"] += 1
        status, said = await self._connection.post("/jobs", {"jobs": jobs} if len(jobs) > 1 else jobs[0])
        if status == 201:
            self._answers.submitted += 1
            ids = said.get("job_ids") or [said["job_id"]]
            self._answers.taken += ids
            self._answers.arrays += [job_id for job_id, job in zip(ids, jobs, strict=True) if "array" in job]
        elif status == 409 and said.keys() >= NUMBERS and said["used"] + said["asked"] > said["limit"]:
            self._answers.refused[f"{said['tenant_id']} {said['resource']}"] += 1
        else:
            self._answers.odd.append(f"{status} to {jobs}: {said}")

    def _job(self) -> dict[str, Any]:
        chance = self._chance
        lasts = chance.random() < 0.4
        array = "" if lasts or chance.random() < 0.7 else chance.choice(("0-9", "0-29%4", "0-69"))
        gpus = chance.choice((0, 0, 0.25, 0.5, 1, 2, 3))
        return {
            "command": ["sleep", "600"] if lasts else ["true"],
            "cwd": str(self._cwd),
            "tenant_id": chance.choice(LEAVES),
            "priority_class": chance.choice(("default", "default", "low")),
            "cpu_request": chance.choice((0.25, 0.5, 1, 1.5)),
            "mem_request_mb": chance.choice((16, 48, 100)),
            "time_limit_s": 600,
            **({"gpu_request": gpus, "gpu_type": MODEL} if gpus else {}),
            **({"array": array} if array else {}),
        }

    async def cancel(self) -> None:
        """Some that were submitted lately, by whomever; some of them have ended, or have been cancelled."""
        recent = self._answers.taken[-RECENT:]
        if not recent:
            return
        wanted = {self._chance.choice(recent) for _ in range(self._chance.randint(1, 4))}
        self._answers.sent["cancels"] += 1
        status, said = await self._connection.post("/jobs/cancel", {"job_ids": sorted(wanted)})
        if status == 202 and not said["not_found"] and not said["forbidden"]:
            self._answers.cancelled.update(said["cancelling"])
        else:
            self._answers.odd.append(f"{status} to cancel {wanted}: {said}")

    async def cancel_some(self) -> None:
        """Tasks of an array, of which some are over and some have no rows yet."""
        if not (recent := self._answers.arrays[-RECENT:]):
            return
        job_id, first = self._chance.choice(recent), self._chance.randint(0, 8)
        body = {"indices": f"{first}-{self._chance.randint(first, 9)}"}
        self._answers.sent["cancels of some"] += 1
        status, said = await self._connection.post(f"/jobs/{job_id}/cancel", body)
        if status != 202 and not (status == 409 and said["type"].endswith("already-ended")):
            self._answers.odd.append(f"{status} to cancel {body} of {job_id}: {said}")

    async def go_on(self, is_over: Callable[[], bool]) -> None:
        deeds = (self.submit, self.cancel, self.cancel_some)
        while not is_over():
            await self._chance.choices(deeds, (14, 5, 1))[0]()
            await asyncio.sleep(self._chance.random() ** 3 * 0.2)


async def crowd(
    sockets: Sequence[Path], count: int, seed: int, cwd: Path, is_over: Callable[[Answers], bool]
) -> Answers:
    """`count` submitters at once, spread over these servers, until it `is_over`."""
    answers = Answers()
    connections = [await Connection.to(sockets[number % len(sockets)]) for number in range(count)]
    over = partial(is_over, answers)
    try:
        await asyncio.gather(
            *(
                Submitter(connection, answers, Random(1000 * seed + number), cwd).go_on(over)
                for number, connection in enumerate(connections)
            )
        )
    finally:
        for connection in connections:
            connection.close()
    return answers
