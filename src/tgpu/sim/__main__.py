"""python -m tgpu.sim --seed 123 --verbose: repeat one run; --seeds 0-999: look for a broken promise."""

import argparse
import sys
import time

from tgpu.sim.run import simulate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tgpu.sim", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="run this one")
    which.add_argument("--seeds", help="run all of a range, such as 0-999")
    parser.add_argument("--series", action="store_true", help="with jobs of many tasks among the others")
    parser.add_argument("--waiting", action="store_true", help="with jobs that wait for others")
    parser.add_argument("--verbose", action="store_true", help="print the whole trace")
    parser.add_argument("--digest", action="store_true", help="print one number that stands for the trace")
    options = parser.parse_args()
    failed = 0
    began = time.monotonic()
    seeds = _seeds(options.seeds) if options.seeds else range(options.seed, options.seed + 1)
    for seed in seeds:
        result = simulate(seed, series=options.series, waiting=options.waiting)
        failed += bool(result.violations)
        if options.verbose:
            _say("\n".join(result.trace.lines()))
        if options.digest:
            _say(result.trace.digest())
        if result.violations or options.seed is not None:
            _say(result.summary())
    if options.seeds:
        rate = len(seeds) / (time.monotonic() - began)
        _say(f"{len(seeds)} seeds, {failed} broke a promise; {rate:.1f} seeds/s")
    return 1 if failed else 0


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
