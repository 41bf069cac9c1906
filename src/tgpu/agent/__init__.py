"""One per node: a pure machine and a thin shell around it."""
