"""What a simulated program does, written into its command line: that is all a node gets to see of it."""

from dataclasses import dataclass

PROGRAM = "simulated"


@dataclass(frozen=True, slots=True)
class Behaviour:
    runs_ms: int
    exit_code: int = 0
    obeys_ms: int | None = 100
    """How long it takes to end after SIGTERM; None: it ignores it."""
    starts: bool = True

    @property
    def argv(self) -> tuple[str, ...]:
        obeys = "never" if self.obeys_ms is None else str(self.obeys_ms)
        return (PROGRAM, str(self.runs_ms), str(self.exit_code), obeys, "yes" if self.starts else "no")

    @classmethod
    def parse(cls, argv: tuple[str, ...]) -> "Behaviour":
        _, runs_ms, exit_code, obeys, starts = argv
        return cls(int(runs_ms), int(exit_code), None if obeys == "never" else int(obeys), starts == "yes")
