#!/usr/bin/env python3
# ruff: noqa: T201  printing is what a demonstration does
"""Tries several learning rates at once, each as a task of one array, and shows them as they come in.

Run it where `tgpu` works: python3 examples/executor_sweep.py
"""

from tgpu.futures import Executor, TaskDied, as_completed


def error_after_training(rate: float) -> float:
    """Fits y = 3x + 1 by gradient descent, with no more than Python."""
    points = [(x / 10, 3 * x / 10 + 1) for x in range(-10, 11)]
    slope = offset = 0.0
    for _ in range(50):
        errors = [(slope * x + offset - y, x) for x, y in points]
        slope -= rate * sum(error * x for error, x in errors) / len(points)
        offset -= rate * sum(error for error, _ in errors) / len(points)
    return sum((slope * x + offset - y) ** 2 for x, y in points) / len(points)


def main() -> None:
    rates = [0.01, 0.1, 0.5, 1.0, 1.5]
    with Executor(cpu_request=1, mem_request_mb=256, time_limit_s=300, at_once=3) as executor:
        futures = dict(zip(executor.submit_each(error_after_training, rates), rates, strict=True))
        for future in as_completed(futures):
            try:
                print(f"rate {futures[future]}: error {future.result():.6f} (task {future.task})")
            except TaskDied as died:
                print(f"rate {futures[future]}: {died}")


if __name__ == "__main__":
    main()
