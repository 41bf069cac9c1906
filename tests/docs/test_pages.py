"""Docs that cannot drift: what is drawn from the code is compared with it."""

import re
import runpy
import subprocess
from pathlib import Path

import pytest

from tgpu.domain.priority import TERMS, PriorityClass

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted(path.relative_to(ROOT) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize(
    "script", ["draw_lifecycle", "list_settings", "list_manifest_fields", "list_slurm_flags"]
)
def test_a_drawn_page_is_up_to_date(script: str) -> None:
    names = runpy.run_path(str(ROOT / "scripts" / f"{script}.py"))
    assert names["TARGET"].read_text(encoding="utf-8") == names["page"](), "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text(encoding="utf-8")):
        assert (ROOT / page).parent.joinpath(target).exists(), target


def test_the_table_of_who_may_stop_whom_is_true() -> None:
    page = (ROOT / "docs/scheduling.md").read_text(encoding="utf-8")
    told = {}
    for row in re.findall(r"^\| `([a-z-]+)` \| (.+) \| (.+) \| (\d+) s \|$", page, re.MULTILINE):
        name, may_stop, stopped_by, grace = row
        told[name] = (re.findall("`([a-z-]+)`", may_stop), re.findall("`([a-z-]+)`", stopped_by), int(grace))
        assert may_stop.endswith("burst")
    assert told == {
        name: (
            [other for other in PriorityClass if other in terms.may_preempt],
            [other for other in PriorityClass if name in TERMS[other].may_preempt],
            terms.grace_s,
        )
        for name, terms in TERMS.items()
    }


def test_every_decision_is_listed() -> None:
    index = (ROOT / "docs/adr/README.md").read_text(encoding="utf-8")
    for path in (ROOT / "docs/adr").glob("0*.md"):
        assert path.name in index


def test_every_make_target_that_the_readme_names_exists() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"make ([a-z]+)", readme)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_command_that_the_readme_names_exists(tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / ".venv/bin/tgpu", "--help"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in set(re.findall(r"(?:`|\$ )tgpu ([a-z]+)", readme)):
        assert re.search(rf"^  {command} ", done.stdout, re.MULTILINE), command
