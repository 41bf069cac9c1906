"""The page on Python, and the example beside it: the programs that they show are run."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.whole_tgpu import Installation, an_installation

ROOT = Path(__file__).parent.parent.parent
PROGRAMS = re.findall(
    r"^```python\n(.+?)^```$", (ROOT / "docs/python.md").read_text("utf-8"), re.DOTALL | re.MULTILINE
)
SAID = (
    "completed 0\nhello",
    "completed\n",
    "12\\D+0, 1, 4, 9, 16, 25, 36, 49, 64, 81\\D+on four GPUs",
    "12\n\\[11, 22, 33\\]",
)


@pytest.fixture(scope="module")
def one() -> Iterator[Installation]:
    with an_installation() as made:
        made.up()
        yield made


def run(one: Installation, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env=one.environ,
        cwd=one.files,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("program", "said"), list(zip(PROGRAMS, SAID, strict=True)))
def test_a_program_of_the_page_does_what_it_says(one: Installation, program: str, said: str) -> None:
    path = one.files / "program.py"
    path.write_text(program)
    printed = run(one, str(path))
    assert re.search(said, printed), printed


def test_the_example_tries_all_its_rates(one: Installation) -> None:
    printed = run(one, str(ROOT / "examples/executor_sweep.py"))
    assert sorted(re.findall(r"rate ([\d.]+): error [\d.]+ \(task \d+\.\d\)", printed)) == [
        "0.01", "0.1", "0.5", "1.0", "1.5",
    ]  # fmt: skip
