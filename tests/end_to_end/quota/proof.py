"""Quotas are exact: a crowd meets the limits of a tenant and of its parent, and somebody looks all the time.

`make prove-quotas` runs it for longer, on more seeds than `make test`.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tests.end_to_end.quota.crowd import TENANTS, Answers, crowd
from tests.end_to_end.quota.places import Place, one_server, three_servers
from tests.end_to_end.quota.watch import Account, Onlooker
from tests.end_to_end.whole_tgpu import Installation
from tgpu.control.alerts import LEDGER_DIFFERS

Where = Callable[[], AbstractContextManager[Place]]
WHERE: Sequence[tuple[Where, int]] = ((three_servers, 64), (one_server, 16))
"""With how many submitters."""


LEAST_LOOKS = 50
REFUSING = frozenset({"lab", "lab/ann", "lab/dan"})
"""Tenants whose limits refuse submissions,"""
SEEN = frozenset({"charged", "held", "burst", "full gpu_milli"})
"""and admission states that are met: otherwise nothing is proved."""
LAST_EVENT = "SELECT max(seq) FROM events"
GREW = """
SELECT count(*) FROM tasks JOIN jobs ON jobs.job_id = tasks.job_id
WHERE jobs.born IS NOT NULL AND tasks.waiting_since_ms > jobs.submitted_ms AND tasks.attempts < 2
"""
"""Tasks that had no rows when their job was submitted."""


def prove(where: Where, submitters: int, seed: int, seconds: float) -> str:
    """Raises AssertionError; what was seen, in words."""
    with where() as place:
        with place.client() as client:
            for tenant, fields in TENANTS.items():
                client.create_tenant(tenant, **fields)
        with Onlooker(place.database) as onlooker:
            answers = asyncio.run(
                crowd(place.sockets, submitters, seed, place.files, _is_over(onlooker, seconds))
            )
            _ends_as_the_sum_of_what_lives(place)
        assert not onlooker.wrong, onlooker.wrong[:10]
        assert not (beyond := place.database.beyond()), beyond
        _every_answer_is_known(place, answers)
        _something_was_proved(place, onlooker, answers)
        assert not (found := place.recount()), found
    return (
        f"{where.__name__}, seed {seed}: {answers.submitted} of {answers.sent['submissions']} submissions "
        f"taken, {len(answers.cancelled)} jobs cancelled, {onlooker.looks} moments looked at"
    )


def _is_over(onlooker: Onlooker, seconds: float) -> Callable[[Answers], bool]:
    """After `seconds`. A machine too slow to meet every limit by then has six times as long."""
    began = time.monotonic()

    def is_over(answers: Answers) -> bool:
        elapsed = time.monotonic() - began
        is_enough = (
            onlooker.looks > LEAST_LOOKS and _refusing(answers) >= REFUSING and onlooker.seen.keys() >= SEEN
        )
        return elapsed > (seconds if is_enough else 6 * seconds)

    return is_over


def _refusing(answers: Answers) -> set[str]:
    return {what.split()[0] for what in answers.refused}


def _every_answer_is_known(place: Place, answers: Answers) -> None:
    assert not answers.odd, answers.odd[:5]
    assert answers.submitted + sum(answers.refused.values()) == answers.sent["submissions"]
    assert len(answers.taken) == len(set(answers.taken))
    assert place.database.query("SELECT count(*) FROM jobs")[0][0] == len(answers.taken)


def _ends_as_the_sum_of_what_lives(place: Place) -> None:
    """As the database and every server say it, once nothing happens any more: only what lasts is left."""
    told: list[dict[str, Any]] = []
    moment = place.database.moment()

    def is_still() -> bool:
        """By events: an array of which one task ends and the next one comes looks as before."""
        nonlocal moment
        before, moment = place.database.query(LAST_EVENT), place.database.moment()
        told[:] = [_told(place, at) for at in range(len(place.homes))]
        return before == place.database.query(LAST_EVENT)

    Installation.wait_until(is_still, "nothing happens any more", 60)
    assert not moment.wrong(), moment.wrong()
    assert moment.tasks, "nothing is left that could be added up"
    true = {tenant: _numbers(moment.accounts[tenant]) for tenant in TENANTS}
    assert told == [true] * len(told), (told, true)


def _told(place: Place, at: int) -> dict[str, Any]:
    with place.client(at) as client:
        assert LEDGER_DIFFERS not in {alert["name"] for alert in client.stats()["alerts"]}
        quotas = {tenant: client.quota(tenant) for tenant in TENANTS}
    shown = ("cpu_used", "mem_used_mb", "gpu_used", "gpu_burst", "running_jobs_used", "waiting_jobs_used")
    return {tenant: [quota[name] for name in shown] for tenant, quota in quotas.items()}


def _numbers(account: Account) -> list[float]:
    cpu, memory, gpu = (account.lines[name] for name in ("cpu_milli", "memory_mib", "gpu_milli"))
    amounts = [cpu.used / 1000, memory.used, gpu.used / 1000, gpu.burst / 1000]
    return [*amounts, account.running, account.waiting]


def _something_was_proved(place: Place, onlooker: Onlooker, answers: Answers) -> None:
    """A crowd that meets no limit proves nothing."""
    assert onlooker.looks > LEAST_LOOKS, onlooker.looks
    assert _refusing(answers) >= REFUSING, answers.refused
    assert onlooker.seen.keys() >= SEEN, onlooker.seen
    assert place.database.query(GREW)[0][0] > 10, "arrays are given rows as there is room for them"
    ends = {status for (status,) in place.database.query("SELECT DISTINCT status FROM jobs")}
    assert {"completed", "cancelled", "running"} <= ends, ends


def _seeds(words: str) -> range:
    first, _, last = words.partition("-")
    return range(int(first), int(last or first) + 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--seeds", type=_seeds, default=range(10), metavar="A-B")
    parser.add_argument("--seconds", type=float, default=30, help="how long the crowd goes on, each time")
    args = parser.parse_args()
    for seed in args.seeds:
        for where, submitters in WHERE:
            print(prove(where, submitters, seed, args.seconds), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
