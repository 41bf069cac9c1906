"""What a job is told to ask for next time, by what it used."""

from dataclasses import replace

import pytest

from tgpu.domain.job import Exit, Group, Request
from tgpu.domain.lifecycle import Cause
from tgpu.domain.right_sizing import LEAST_RUN_S, Run, advice
from tgpu.domain.use import Use

GIB = 1024
HOUR_S = 3600
USED_ALL = Use(cpu_peak_milli=16_000, memory_peak_mib=64 * GIB, gpus_used=4)
ASKED = Request(cpu_milli=16_000, memory_mib=64 * GIB, gpu_milli=4000)


def run(use: Use = USED_ALL, *, devices: int = 4, run_s: float = HOUR_S, **changes: object) -> Run:
    busy_ms = round(1000 * run_s * devices)
    end = Exit(Cause.EXITED, exit_code=0, started_ms=0, ended_ms=round(1000 * run_s), gpu_ms=busy_ms, use=use)
    return Run(replace(end, **changes), devices)  # type: ignore[arg-type]


def told(*runs: Run, request: Request = ASKED, limit_s: int | None = None, **group: object) -> list[str]:
    return advice(Group(["x"], request, **group), limit_s, runs)  # type: ignore[arg-type]


def test_what_used_what_it_asked_for_is_told_nothing() -> None:
    assert told(run(), limit_s=2 * HOUR_S) == []


@pytest.mark.parametrize(
    ("peak_mib", "sentence"),
    [
        (9 * GIB, "asked for 64G memory, peaked at 9G: --memory 12G would do"),
        (700, "asked for 64G memory, peaked at 700M: --memory 1G would do"),
        (150, "asked for 64G memory, peaked at 150M: --memory 256M would do"),
        (30 * GIB, "asked for 64G memory, peaked at 30G: --memory 38G would do"),
    ],
)
def test_memory_that_it_never_needed(peak_mib: int, sentence: str) -> None:
    assert told(run(replace(USED_ALL, memory_peak_mib=peak_mib))) == [sentence]


def test_memory_that_nearly_all_was_needed_or_that_is_little_is_left_alone() -> None:
    assert told(run(replace(USED_ALL, memory_peak_mib=31 * GIB))) == []
    little = replace(ASKED, memory_mib=GIB)
    assert told(run(replace(USED_ALL, memory_peak_mib=50)), request=little) == []
    none = replace(ASKED, memory_mib=0)
    assert told(run(replace(USED_ALL, memory_peak_mib=50)), request=none) == []


def test_where_nobody_looked_the_most_that_was_held_counts() -> None:
    unseen = replace(USED_ALL, memory_peak_mib=None)
    assert told(run(unseen, peak_memory_mib=8 * GIB)) == [
        "asked for 64G memory, peaked at 8G: --memory 10G would do"
    ]
    assert told(run(unseen, peak_memory_mib=0)) == []


def test_cpus_that_were_never_used() -> None:
    assert told(run(replace(USED_ALL, cpu_peak_milli=3180))) == [
        "asked for 16 CPUs, used 3.2 at most: --cpus 4 would do"
    ]
    assert told(run(replace(USED_ALL, cpu_peak_milli=9000))) == []
    assert told(run(replace(USED_ALL, cpu_peak_milli=None))) == []
    assert told(run(replace(USED_ALL, cpu_peak_milli=10)), request=replace(ASKED, cpu_milli=1000)) == []


def test_whoever_was_held_back_is_told_so() -> None:
    held = replace(USED_ALL, throttled_percent=45)
    (sentence,) = told(run(held))
    assert sentence == (
        "was held back 45 % of the time by its limit of 16 CPUs: "
        "with more (--cpus, or --cpu-limit) it would be faster"
    )
    assert told(run(held), cpu_limit_milli=0) == []
    assert told(run(replace(held, throttled_percent=9))) == []


@pytest.mark.parametrize(
    ("used", "devices", "sentence"),
    [
        (2, 4, "2 of 4 GPUs were never used: --gpus 2 would do"),
        (3, 4, "1 of 4 GPUs was never used: --gpus 3 would do"),
        (0, 4, "none of its 4 GPUs was ever used: it would run without (--gpus 0)"),
        (0, 1, "its GPU was never used: it would run without (--gpus 0)"),
    ],
)
def test_gpus_that_were_never_used(used: int, devices: int, sentence: str) -> None:
    request = replace(ASKED, gpu_milli=1000 * devices)
    assert told(run(replace(USED_ALL, gpus_used=used), devices=devices), request=request) == [sentence]


def test_gpus_that_were_rarely_busy() -> None:
    request = replace(ASKED, gpu_milli=1000)
    one = replace(USED_ALL, gpus_used=1)
    idle = run(one, devices=1, gpu_ms=HOUR_S * 120)
    assert told(idle, request=request) == [
        "its GPU was busy 12 % of the time: a part of one (--gpus 0.5) may do"
    ]
    assert told(idle, request=replace(request, gpu_milli=500)) == []
    assert told(run(gpu_ms=4 * HOUR_S * 100)) == ["its 4 GPUs were busy 10 % of the time: fewer may do"]
    assert told(run(replace(USED_ALL, gpus_used=None), gpu_ms=None)) == []


def test_gpu_memory_that_it_never_needed() -> None:
    request = replace(ASKED, gpu_milli=0, gpu_memory_mib=40 * GIB)
    use = replace(USED_ALL, gpus_used=1, gpu_memory_peak_mib=7 * GIB)
    assert told(run(use, devices=1), request=request) == [
        "asked for 40G GPU memory, peaked at 7G: --gpu-memory 9G would do"
    ]
    unknown = replace(use, gpu_memory_peak_mib=None)
    assert told(run(unknown, devices=1), request=request) == []


def test_a_time_limit_far_beyond_what_it_took() -> None:
    assert told(run(run_s=2 * HOUR_S), limit_s=24 * HOUR_S) == [
        "asked for 1d, ran 2h: with --time 4h it would find a gap sooner"
    ]
    assert told(run(run_s=600), limit_s=5 * HOUR_S) == [
        "asked for 5h, ran 10m: with --time 20m it would find a gap sooner"
    ]
    assert told(run(run_s=600), limit_s=1500) == []
    assert told(run(run_s=4 * HOUR_S), limit_s=12 * HOUR_S) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"run_s": LEAST_RUN_S - 1},
        {"exit_code": 1},
        {"cause": Cause.OUT_OF_MEMORY, "exit_code": None, "signal": 9},
        {"cause": Cause.CANCELLED, "exit_code": None},
        {"started_ms": None},
    ],
)
def test_what_failed_or_hardly_ran_tells_nothing(changes: dict[str, object]) -> None:
    idle = Use(cpu_peak_milli=10, memory_peak_mib=10, gpus_used=0)
    assert told(run(idle, **changes), limit_s=24 * HOUR_S) == []  # type: ignore[arg-type]
    assert len(told(run(idle), limit_s=24 * HOUR_S)) == 4


def test_of_several_tasks_the_one_that_used_most_speaks_for_all() -> None:
    small, large = (run(replace(USED_ALL, memory_peak_mib=peak * GIB)) for peak in (2, 9))
    failed = run(exit_code=1)
    assert told(small, large, failed) == ["asked for 64G memory, peaked at 9G: --memory 12G would do"]
