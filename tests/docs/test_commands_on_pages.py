"""The pages about tenants and access: the commands that they show are run, in order, and do what they say."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.whole_tgpu import Installation, an_installation

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def up() -> Iterator[Installation]:
    with an_installation() as one:
        (one.files / "train.py").write_text("print('done')\n")
        (one.files / "token.txt").write_text("hush\n")
        one.up()
        yield one


def commands(page: str, section: str = "") -> list[str]:
    """Every `$ tgpu …` of a page, or of one section of it."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if section:
        text = text.split(f"## {section}\n")[1].split("\n## ")[0]
    return [line.removeprefix("$ ") for line in re.findall(r"^\$ tgpu .+$", text, re.MULTILINE)]


def run_all(up: Installation, lines: list[str]) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for line in lines:
        done = subprocess.run(
            line, shell=True, env=up.environ | {"PATH": path}, cwd=up.files, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


def test_the_readme_s_section_on_teams(up: Installation) -> None:
    lines = commands("README.md", "Teams: who may use how much")
    assert len(lines) > 5
    run_all(up, lines)
    vision = up.json("tenants", "show", "lab/vision")
    assert (vision["quota"]["gpu_limit"], vision["quota"]["gpu_hours_limit"]) == (4, 500)
    assert (vision["over_quota"], vision["max_time_limit_s"]) == ("queue", 2 * 86400)
    (job,) = up.json("list", "--all")
    assert job["tenant_id"] == "lab/vision"


def test_the_page_on_tenants(up: Installation) -> None:
    lines = commands("docs/tenants.md")
    assert len(lines) > 10
    run_all(up, lines)
    lab, vision = (up.json("tenants", "show", name) for name in ("lab", "lab/vision"))
    assert (lab["weight"], lab["over_quota"], lab["quota"]["gpu_type_limits"]) == (2, "queue", {"h100": 2})
    assert (vision["weight"], vision["quota"]["gpu_limit"], vision["quota"]["mem_limit_mb"]) == (3, 4, 65536)
    assert vision["effective"]["over_quota"] == "queue"
    assert [tenant["tenant_id"] for tenant in up.json("tenants", "list", "--all")] == [
        "default", "lab", "lab/vision",
    ]  # fmt: skip


def test_the_page_on_access(up: Installation) -> None:
    lines = commands("docs/access.md")
    assert len(lines) > 12
    run_all(up, lines)
    assert [(one["user_id"], one["tenant_id"], one["role"]) for one in up.json("users")] == [
        ("daemon", "*", "viewer"), ("nobody", "lab", "operator"),
    ]  # fmt: skip
    assert up.json("secret", "list") == []
    assert [token["revoked"] for token in up.json("token", "list")] == [True, False]
