#!/usr/bin/env python3
# ruff: noqa: T201  printing is what shows that it trains
# Submit with: tgpu submit --gpus 1 --time 1h --name demo -- python3 examples/train_demo.py --epochs 20
"""Fits a line by gradient descent: a stand-in for training that needs nothing but Python.

It keeps a checkpoint in TGPU_CHECKPOINT_DIR (if set) and goes on from it when it is tried again. On
SIGTERM, which tgpu sends before it stops a job, it saves once more and ends.
"""

import argparse
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

STOPPED = 143  # what a shell says of a program that SIGTERM has ended


class Training:
    def __init__(self, checkpoint: Path | None) -> None:
        self.checkpoint = checkpoint
        self.state = {"epoch": 0, "slope": 0.0, "offset": 0.0}
        if checkpoint is not None and checkpoint.exists():
            self.state = json.loads(checkpoint.read_text(encoding="utf-8"))
            print(f"goes on after epoch {self.state['epoch']}", flush=True)

    def epoch(self, points: list[tuple[float, float]]) -> float:
        """One pass over the points; the mean squared error before it."""
        slope, offset = self.state["slope"], self.state["offset"]
        errors = [(slope * x + offset - y, x) for x, y in points]
        self.state["slope"] -= 0.5 * sum(error * x for error, x in errors) / len(points)
        self.state["offset"] -= 0.5 * sum(error for error, _ in errors) / len(points)
        self.state["epoch"] += 1
        return sum(error * error for error, _ in errors) / len(points)

    def save(self) -> None:
        """Whole or not at all: a checkpoint cut short would be worse than none."""
        if self.checkpoint is None:
            return
        fresh = self.checkpoint.with_suffix(".new")
        fresh.write_text(json.dumps(self.state), encoding="utf-8")
        fresh.replace(self.checkpoint)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seconds-per-epoch", type=float, default=0.5)
    args = parser.parse_args()
    folder = os.environ.get("TGPU_CHECKPOINT_DIR")
    training = Training(Path(folder) / "train_demo.json" if folder else None)
    stops: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stops.append(number))
    print(f"GPUs: {os.environ.get('CUDA_VISIBLE_DEVICES', 'none')}", flush=True)
    chance = random.Random(7)  # noqa: S311  toy data, the same each time
    points = [(x / 100, 3 * x / 100 + 1 + chance.gauss(0, 0.1)) for x in range(100)]
    while training.state["epoch"] < args.epochs:
        loss = training.epoch(points)
        print(f"epoch {training.state['epoch']}: loss {loss:.4f}", flush=True)
        training.save()
        if stops:
            print("asked to stop: checkpoint saved", file=sys.stderr, flush=True)
            return STOPPED
        time.sleep(args.seconds_per_epoch)
    print(f"y = {training.state['slope']:.2f} x + {training.state['offset']:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
