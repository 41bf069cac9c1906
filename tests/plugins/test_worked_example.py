"""The plug-in in `examples/tgpu-plugin` is installed with pip and planned with, as `docs/plugins.md` says."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "tgpu-plugin"
MODULE = "src/tgpu_house_rules/__init__.py"
CHOSEN = 'policy = "shortest-first"\nscorer = "warmest"\n'
BROKEN = """
from tgpu.domain.views import Reason

def no_interns_in_production(request, node):
    in_production = node.labels["production"] == "yes"  # fails where there is no such label
    return Reason("production", "not for interns") if in_production and request.user == "intern" else None

def shortest_first(task, now_ms):
    raise RuntimeError("no idea how long")

def warmest(request, node, left):
    return 1 / 0
"""
PIP = ("-m", "pip", "--disable-pip-version-check", "--no-cache-dir", "install", "--quiet")
FROM_HERE = ("--no-deps", "--no-build-isolation", "--no-index")


def installed(copy: Path, site: Path) -> Path:
    subprocess.run([sys.executable, *PIP, *FROM_HERE, "--target", site, copy], check=True, timeout=100)
    return site


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """What is built leaves files beside it: not in the tree."""
    return shutil.copytree(
        EXAMPLE, tmp_path / "tgpu-plugin", ignore=shutil.ignore_patterns("__pycache__", "dist")
    )


def planned(tmp_path: Path, site: Path) -> Any:
    home = tmp_path / "home"
    home.mkdir()
    (home / "tgpu.toml").write_text(CHOSEN)
    env = os.environ | {"PYTHONPATH": f"{site}{os.pathsep}{ROOT}"}
    program = [sys.executable, "-m", "tests.plugins.plan_with_plug_ins", str(home)]
    done = subprocess.run(program, env=env, cwd=tmp_path, check=True, stdout=subprocess.PIPE, timeout=100)
    return json.loads(done.stdout.splitlines()[-1])


def test_the_example_installs_and_its_rule_order_and_scorer_decide(tmp_path: Path, copy: Path) -> None:
    said = planned(tmp_path, installed(copy, tmp_path / "site"))
    assert said["rules"] == ["no-interns-in-production"]
    assert said["in line"] == [3, 2, 1, 5, 4], "by time limit; who has none comes last"
    # alpha is the warmest: ada's jobs go there. The intern's go to beta, or wait while alpha has a CPU.
    assert said["starts"] == [[3, "alpha"], [2, "beta"], [1, "alpha"]]
    assert said["why 5"] == "waits: needs 1 CPU; beta has 0 free"
    assert "alpha is in production, which is not for interns" in said["refused"]
    assert said["faults"] == {}


def test_a_plug_in_that_fails_is_reported_and_the_plan_is_made_without_it(tmp_path: Path, copy: Path) -> None:
    (copy / MODULE).write_text(BROKEN)
    said = planned(tmp_path, installed(copy, tmp_path / "site"))
    assert said["in line"] == [1, 2, 3, 4, 5], "by time, as the order has no idea"
    # The rule fails on beta: nobody goes there. On alpha it holds: no intern goes there, either.
    assert said["starts"] == [[1, "alpha"], [3, "alpha"]]
    assert said["faults"] == {
        "no-interns-in-production": "rule no-interns-in-production failed on beta: KeyError: 'production'",
        "shortest-first": said["faults"]["shortest-first"],
        "warmest": "scorer warmest failed: ZeroDivisionError: division by zero",
    }
    assert re.fullmatch(
        r"order shortest-first failed on job \d+: RuntimeError: no idea how long",
        said["faults"]["shortest-first"],
    )


def test_the_tree_is_as_it_was() -> None:
    files = {str(path.relative_to(EXAMPLE)) for path in EXAMPLE.rglob("*") if path.is_file()}
    assert {name for name in files if "__pycache__" not in name} == {"README.md", "pyproject.toml", MODULE}


def test_what_the_page_shows_is_the_example() -> None:
    page = (ROOT / "docs/plugins.md").read_text(encoding="utf-8")
    code, points = (EXAMPLE / MODULE).read_text(), (EXAMPLE / "pyproject.toml").read_text()
    shown = re.findall(r"```(python|toml)\n(.*?)```", page, re.DOTALL)
    assert len([kind for kind, _ in shown if kind == "python"]) == 3
    for kind, text in shown:
        if kind == "python":
            assert text in code
        elif "entry-points" in text:
            assert text in points
