"""Runs every benchmark, one after the other, and prints one table."""

import json
import subprocess
import sys
from pathlib import Path

from report import Case, arguments, emit

HERE = Path(__file__).parent
SCRIPTS = (
    "core",
    "submit_to_start",
    "drain",
    "runner",
    "runner_containers",
    "submissions",
    "list_jobs",
    "log_intake",
    "quota",
    "kinds",
    "accounting",
    "estimates",
    "cluster",
    "web",
    "web_jobs",
)


def run(name: str, *, quick: bool) -> list[Case] | None:
    """Its cases; None if it failed, after its words have gone to stderr."""
    command = [sys.executable, str(HERE / f"{name}.py"), "--json", *(["--quick"] if quick else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print(f"{name} failed", file=sys.stderr)
        return None
    return [Case(**json.loads(line)) for line in done.stdout.splitlines()]


def main() -> int:
    args = arguments(__doc__).parse_args()
    cases: list[Case] = []
    failed = 0
    for name in SCRIPTS:
        if not args.json:
            print(f"{name} …", file=sys.stderr, flush=True)
        found = run(name, quick=args.quick)
        failed += found is None
        cases += found or []
    emit(cases, as_json=args.json)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
