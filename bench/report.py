"""How a benchmark speaks: one JSON object per case and line, or a small table for people."""

import argparse
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Case:
    """One figure beside its baseline of the same run: on a shared machine only their ratio means much."""

    case: str
    value: float
    unit: str
    baseline: float | None = None
    ratio: float | None = None
    goal: str | None = None
    met: bool | None = None


def at_most(case: str, value: float, unit: str, goal: float, baseline: float | None = None) -> Case:
    """The smaller the better."""
    return _case(case, value, unit, baseline, f"<= {goal:g} {unit}", met=value <= goal)


def at_least(case: str, value: float, unit: str, goal: float, baseline: float | None = None) -> Case:
    """The larger the better."""
    return _case(case, value, unit, baseline, f">= {goal:g} {unit}", met=value >= goal)


def ratio_at_least(case: str, value: float, unit: str, goal: float, baseline: float) -> Case:
    """The larger the better, judged against the baseline alone."""
    return _case(case, value, unit, baseline, f"ratio >= {goal:g}", met=value / baseline >= goal)


def figure(case: str, value: float, unit: str, baseline: float | None = None) -> Case:
    """Worth knowing, without a goal."""
    return _case(case, value, unit, baseline, None, met=None)


def _case(
    case: str, value: float, unit: str, baseline: float | None, goal: str | None, *, met: bool | None
) -> Case:
    ratio = round(value / baseline, 3) if baseline else None
    return Case(case, round(value, 3), unit, round(baseline, 3) if baseline else None, ratio, goal, met)


def percentile(samples: Sequence[float], percent: float) -> float:
    """By nearest rank: a value that was really seen."""
    ranked = sorted(samples)
    return ranked[max(0, math.ceil(percent / 100 * len(ranked)) - 1)]


def arguments(doc: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--quick", action="store_true", help="fewer samples: ends within 40 s")
    parser.add_argument("--json", action="store_true", help="one JSON object per case and line")
    return parser


def emit(cases: Iterable[Case], *, as_json: bool) -> None:
    if as_json:
        for case in cases:
            print(json.dumps(asdict(case)), flush=True)
    else:
        print("\n".join(table(cases)), flush=True)


def table(cases: Iterable[Case]) -> list[str]:
    rows = [("CASE", "VALUE", "UNIT", "BASELINE", "RATIO", "GOAL", "MET")]
    rows += [
        (
            case.case,
            _number(case.value),
            case.unit,
            _number(case.baseline),
            _number(case.ratio),
            case.goal or "",
            {True: "yes", False: "NO", None: ""}[case.met],
        )
        for case in cases
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
