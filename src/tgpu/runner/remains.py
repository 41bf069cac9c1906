"""What an agent that is not running left on this machine: read from its records, without changing them."""

from dataclasses import dataclass
from pathlib import Path

from tgpu.runner import records
from tgpu.runner.docker.ledger import read_entries
from tgpu.runner.journal import Journals

CONTAINERS = "containers"
"""The folder of an agent's records of containers."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Remains:
    """Attempts of all clusters for which this home has run something."""

    running: tuple[str, ...]
    """Whose supervisor lives; and containers that were started since the machine was, and have no recorded
    end."""
    unsettled: tuple[str, ...]
    """These, and those that ended without a server having taken note of it."""


def remains(agent_dir: Path) -> Remains:
    boot = _BOOT_ID.read_text(encoding="ascii").strip()
    running: list[str] = []
    unsettled: list[str] = []
    for folder in sorted(agent_dir.glob(f"*/{records.CLAIMS}")):
        contents = Journals(folder.parent).read()
        for attempt, claim in contents.claims.items():
            if attempt in contents.forgotten:
                continue
            unsettled.append(attempt)
            is_of_now = contents.boots.get(contents.generation[attempt]) == boot
            if attempt not in contents.exits and is_of_now and claim.is_alive():
                running.append(attempt)
    for folder in sorted(agent_dir.glob(f"*/{CONTAINERS}")):
        for attempt, entry in read_entries(folder).items():
            if entry.forgotten_ms is not None or (entry.started_ms is None and entry.exit is None):
                continue
            unsettled.append(attempt)
            if entry.exit is None and entry.boot == boot:
                running.append(attempt)
    return Remains(tuple(running), tuple(unsettled))
