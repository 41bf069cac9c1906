"""Header, navigation, sign-in and keyboard: what all pages share."""

from collections.abc import Callable

import pytest

from tests.end_to_end.whole_tgpu import Installation
from tests.web.dashboard import Dashboard

PATHS = ("/", "/jobs", "/nodes", "/queues", "/timeline", "/reports", "/submit", "/admin")


@pytest.mark.parametrize("path", PATHS)
def test_page_has_no_serious_accessibility_fault_in_either_theme(dashboard: Dashboard, path: str) -> None:
    dashboard.open(path)
    for theme in ("light", "dark"):
        dashboard.set_theme(theme)
        assert dashboard.accessibility_faults() == []
    dashboard.screenshots(f"page-{path.strip('/') or 'overview'}")


def test_sign_in_page_returns_to_the_page_that_was_asked_for(
    cluster: Installation, open_dashboard: Callable[..., Dashboard]
) -> None:
    dashboard = open_dashboard(cluster, sign_in=False)
    token = cluster.json("token", "create", "--expires", "1h")["token"]
    page = dashboard.open("/nodes")
    page.get_by_role("heading", name="Sign in to tgpu").wait_for()
    dashboard.screenshots("signin")
    assert dashboard.accessibility_faults() == []
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Nodes").wait_for()
    assert page.url.endswith("/ui/nodes")


def test_refused_token_is_explained(cluster: Installation, open_dashboard: Callable[..., Dashboard]) -> None:
    dashboard = open_dashboard(cluster, sign_in=False)
    dashboard.expected.append("401")
    page = dashboard.open("/")
    page.get_by_label("Token").fill("tgpu_nonsense")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("alert").wait_for()


def test_signed_out_page_asks_to_sign_in(dashboard: Dashboard) -> None:
    page = dashboard.page
    page.get_by_role("button", name="User ").click()
    page.get_by_role("menuitem", name="Sign out").click()
    page.get_by_text("You are signed out.").wait_for()
    dashboard.expected.append("401")
    page.reload()
    page.get_by_role("heading", name="Sign in to tgpu").wait_for()


def test_keyboard_goes_to_pages_and_shows_its_shortcuts(dashboard: Dashboard) -> None:
    page = dashboard.page
    page.keyboard.press("g")
    page.keyboard.press("n")
    page.get_by_role("heading", name="Nodes", level=1).wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keyboard shortcuts").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")


def test_unknown_path_says_so(dashboard: Dashboard) -> None:
    dashboard.open("/nothing/here")
    dashboard.wait_for_text("There is no such page")


def test_narrow_screen_has_navigation_at_the_bottom_and_no_sideways_scrolling(
    cluster: Installation, open_dashboard: Callable[..., Dashboard]
) -> None:
    page = open_dashboard(cluster, width=380, height=800).page
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Reports").click()
    page.get_by_role("heading", name="Reports", level=1).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
