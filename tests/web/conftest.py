"""Fixtures for tests in a real browser: Chromium, a real tgpu, and pages that are signed in.

`make test` collects test_slice.py only; `make test-web` collects all files with `--all-web`.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.end_to_end.whole_tgpu import Installation, an_installation
from tests.web.dashboard import Dashboard

SLICE = "test_slice.py"
_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-web", action="store_true", help="collect every browser test, not only the slice")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path.parent != Path(__file__).parent or not collection_path.name.startswith("test_"):
        return None
    named = any(str(argument).split("::")[0].endswith(collection_path.name) for argument in config.args)
    wanted = collection_path.name == SLICE or named or config.getoption("all_web", default=False)
    return None if wanted else True


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Closed before the next file: while it is open, its event loop runs in this thread and no other can."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    assert program is not None, "install Chromium: sudo apt-get install chromium"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=list(_FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Installation]:
    """One tgpu with 8 simulated GPUs for all tests that leave it as it was."""
    with an_installation() as one:
        one.up()
        yield one


@pytest.fixture
def dashboard(browser: Browser, cluster: Installation) -> Iterator[Dashboard]:
    """The dashboard of `cluster`, signed in as the user that runs the tests. Console errors fail the test."""
    opened = Dashboard(browser, cluster)
    yield opened
    opened.close()


@pytest.fixture
def open_dashboard(browser: Browser) -> Iterator[Callable[..., Dashboard]]:
    """Opens further dashboards: of another installation, with another token, theme or size."""
    opened: list[Dashboard] = []

    def open_one(installation: Installation, **options: object) -> Dashboard:
        opened.append(Dashboard(browser, installation, **options))  # type: ignore[arg-type]
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()
