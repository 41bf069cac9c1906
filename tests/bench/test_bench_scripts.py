"""The benchmarks can be started; what they measure is judged by running them, not here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
MODULES = {
    "big_cluster.py",
    "browser.py",
    "cluster_crash.py",
    "cluster_installation.py",
    "cluster_load.py",
    "fleet.py",
    "installation.py",
    "needs_dag.py",
    "numpy_scan.py",
    "postgres_floor.py",
    "report.py",
    "simulated_agents.py",
}
SCRIPTS = sorted(path.name for path in BENCH.glob("*.py") if path.name not in MODULES)


def run(*words: str, within_s: float = 30) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=BENCH,
        env={**os.environ, "PYTHONPATH": str(BENCH)},
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_explains_itself(script: str) -> None:
    assert "usage:" in run(script, "--help")


def test_the_floor_runs_its_jobs_and_leaves_nothing(tmp_path: Path) -> None:
    assert float(run("-I", "-S", "floor_spawn.py", "10", "2", str(tmp_path))) > 0
    assert list(tmp_path.iterdir()) == []


def test_the_table_of_all_benchmarks_forgets_none() -> None:
    listed = run("-c", "import run_all; print(*sorted(f'{name}.py' for name in run_all.SCRIPTS))").split()
    assert listed == [name for name in SCRIPTS if name not in {"run_all.py", "floor_spawn.py"}]


TINY_CLUSTER = """
import json
from dataclasses import asdict

import cluster


def main():
    size = cluster.Size(
        agents=20,
        idle_s=1,
        few_idle_s=1,
        placement_nodes=20,
        placements=40,
        waiting=30,
        samples=2,
        failover_agents=20,
        failover_tasks=40,
        servers=2,
        watch_s=0,
    )
    for case in cluster.run_together(cluster.QUICK_GROUPS, size, tls=True):
        print(json.dumps(asdict(case)))


if __name__ == "__main__":
    main()
"""


@pytest.mark.timeout(180)
def test_a_cluster_of_twenty_agents_is_measured_and_loses_nothing_with_its_leader(tmp_path: Path) -> None:
    script = tmp_path / "tiny.py"
    script.write_text(TINY_CLUSTER)
    lines = run(str(script), within_s=150)
    cases = {case["case"]: case for case in map(json.loads, lines.splitlines())}
    assert cases["cluster_idle_taken_for_lost_20_agents_1_s"]["value"] == 0
    assert cases["cluster_placements_20_nodes_40_tasks"]["value"] > 0
    assert cases["cluster_real_time_p50_20_nodes_30_waiting"]["value"] > 0
    assert cases["cluster_batch_decision_p99_20_nodes_30_waiting"]["value"] > 0
    assert cases["cluster_failover_lost_or_doubled_20_agents_80_tasks"]["value"] == 0
    assert cases["cluster_reconnected_taken_for_lost_20_agents_80_tasks"]["value"] == 0
