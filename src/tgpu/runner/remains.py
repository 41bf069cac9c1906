"""What an agent that is not running left on this machine: read from its records, without changing them."""

from dataclasses import dataclass
from pathlib import Path

from tgpu.runner import records
from tgpu.runner.journal import Journals

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Remains:
    """Attempts of all clusters for which this home has run something."""

    running: tuple[str, ...]
    """Whose supervisor lives."""
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
    return Remains(tuple(running), tuple(unsettled))
