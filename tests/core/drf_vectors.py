"""Small exact oracles of dominant resource fairness: facts from its paper and from the sorter tests of Mesos.

Ghodsi et al., "Dominant Resource Fairness", NSDI 2011, sections 4 and 4.1 (Table 1); apache/mesos,
src/tests/sorter_tests.cpp (Apache-2.0). CPUs, then memory in GB, or in the sorter's units.
"""

Amount = tuple[int, int]

PAPER_CAPACITY: Amount = (9, 18)
PAPER_TASKS: dict[str, Amount] = {"A": (1, 4), "B": (3, 1)}
PAPER_ORDER = ("B", "A", "A", "B", "A")
"""Whose task starts in each step; of equals the paper takes B first."""
PAPER_SHARES = (1 / 3, 2 / 9, 4 / 9, 2 / 3, 2 / 3)
"""The dominant share of whoever was served, after each step."""
PAPER_ALLOCATION: dict[str, Amount] = {"A": (3, 12), "B": (6, 2)}

Step = tuple[Amount, dict[str, Amount], dict[str, float], tuple[str, ...]]
"""The whole, what each has, weights (1 if not named), and who comes first."""

SORTER: tuple[Step, ...] = (
    ((100, 100), {"a": (5, 5), "b": (6, 6)}, {}, ("a", "b")),
    ((100, 100), {"a": (5, 5), "b": (6, 6), "c": (1, 1), "d": (3, 1)}, {}, ("c", "d", "a", "b")),
    ((100, 100), {"b": (2, 2), "c": (1, 1), "d": (3, 1)}, {}, ("c", "b", "d")),
    ((50, 100), {"b": (2, 2), "c": (1, 1), "d": (3, 1), "e": (1, 5)}, {}, ("c", "b", "e", "d")),
    (
        (50, 200),
        {"b": (2, 2), "c": (1, 16), "d": (3, 1), "e": (1, 5), "f": (5, 1)},
        {},
        ("e", "b", "d", "c", "f"),
    ),
)
WEIGHTED_SORTER: tuple[Step, ...] = (
    ((100, 100), {"a": (5, 5), "b": (6, 6)}, {"b": 2}, ("b", "a")),
    ((100, 100), {"a": (5, 5), "b": (6, 6), "c": (4, 4)}, {"b": 2}, ("b", "c", "a")),
    (
        (100, 100),
        {"a": (5, 5), "b": (6, 6), "c": (4, 4), "d": (10, 20)},
        {"b": 2, "d": 10},
        ("d", "b", "c", "a"),
    ),
    ((100, 100), {"a": (5, 5), "c": (4, 4), "d": (20, 45)}, {"d": 10}, ("c", "d", "a")),
    (
        (100, 100),
        {"a": (5, 5), "c": (4, 4), "d": (20, 45), "e": (1, 1)},
        {"d": 10, "e": 0.1},
        ("c", "d", "a", "e"),
    ),
)
TOTAL_CHANGES: tuple[Step, ...] = (
    ((10, 100), {"a": (2, 1), "b": (1, 2)}, {}, ("b", "a")),
    ((100, 10), {"a": (2, 1), "b": (1, 2)}, {}, ("a", "b")),
)
