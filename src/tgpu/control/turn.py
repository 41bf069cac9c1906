"""One turn of the loop on paper: what is to be committed, and what is to be said once it is."""

from dataclasses import dataclass, field

from tgpu.store.port import Batch


@dataclass(slots=True)
class Turn:
    batch: Batch
    acknowledgements: list[tuple[str, int, int]] = field(default_factory=list)
    """(node, session, report): said only after the commit, so that nothing is forgotten too early."""
    forget: list[tuple[str, str]] = field(default_factory=list)
    """(node, attempt) that this server has no use for."""
    remind: list[str] = field(default_factory=list)
    """Nodes that came back and have orders open: told again."""
    waits: list[tuple[str, float]] = field(default_factory=list)
    """(class, seconds) of each task that began to run."""
    completions: list[tuple[str, float]] = field(default_factory=list)
    """(outcome, seconds since its submission) of each task that is over."""
