"""How attempts are run on a node: one port, and the ways to do it."""
