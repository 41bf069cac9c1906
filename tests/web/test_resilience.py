"""Pages that are left open: restarts, upgrades, ended sessions, other tabs, links of others, wrong clocks."""

import re
import socket
from collections.abc import Callable, Iterator

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.whole_tgpu import Installation, an_installation
from tests.web.dashboard import WITHIN_MS, Dashboard, sign_in_link

expect.set_options(timeout=WITHIN_MS)
OTHER = "nobody"
CLOCK_AHEAD = """
const Real = Date, ahead = 5 * 3600 * 1000;
globalThis.Date = class extends Real {
  constructor(...given) { if (given.length) super(...given); else super(Real.now() + ahead); }
  static now() { return Real.now() + ahead; }
};
"""
Open = Callable[..., Dashboard]


@pytest.fixture
def restarted() -> Iterator[Installation]:
    """With a port that stays the same, as in real installations."""
    with an_installation() as one:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            one.environ["TGPU_LISTEN"] = f"127.0.0.1:{free.getsockname()[1]}"
        one.up()
        yield one


def link_of(installation: Installation, user: str) -> str:
    """A one-time link that another user made."""
    with installation.client() as client:
        token = client.create_token(user_id=user)["token"]
    port = re.sub(r"/ui/.*", "", sign_in_link(installation)).rsplit(":", 1)[1]
    headers = {"Authorization": f"Bearer {token}"}
    answer = httpx.post(f"http://127.0.0.1:{port}/session/links", headers=headers, json={})
    return str(answer.raise_for_status().json()["url"])


def user_shown(page: Page) -> str:
    return str(page.locator(".user-name").inner_text())


def revoke_sessions(installation: Installation) -> None:
    with installation.client() as client:
        for token in client.tokens():
            if token["note"] == "dashboard" and not token["revoked"]:
                client.revoke_token(token["token_id"])


def test_page_left_open_across_a_server_restart_says_so_and_continues_after_sign_in(
    restarted: Installation, open_dashboard: Open
) -> None:
    job_id = restarted.submit("--name", "before-restart", "--hold", "--", "true")
    dashboard = open_dashboard(restarted)
    dashboard.expected += ["ERR_", "401", "421"]
    page = dashboard.open(f"/jobs/{job_id}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("before-restart")
    restarted.kill("server")
    expect(page.get_by_text("Reconnecting…")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_contain_text("before-restart")  # what is known stays
    restarted.up()
    expect(page.get_by_text("The server was restarted, which ends sessions.")).to_be_visible()
    link = sign_in_link(restarted)
    dashboard.base = re.sub(r"/ui/.*", "", link)  # the new process has another host name
    page.goto(link)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def test_revoked_session_asks_to_sign_in_and_returns_to_the_page(
    cluster: Installation, open_dashboard: Open
) -> None:
    dashboard = open_dashboard(cluster)
    dashboard.expected.append("401")
    page = dashboard.open("/queues")
    revoke_sessions(cluster)
    page.get_by_role("navigation").first.get_by_role("link", name="Reports").click()
    expect(page.get_by_text("Your session has ended.")).to_be_visible()
    with cluster.client() as client:
        token = client.create_token()["token"]
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Reports")).to_be_visible()


def test_page_of_an_older_version_loads_the_new_one_when_its_files_are_gone(
    cluster: Installation, open_dashboard: Open
) -> None:
    dashboard = open_dashboard(cluster)
    dashboard.expected += ["404", "Failed to load", "Failed to fetch dynamically imported module"]
    page = dashboard.page
    page.route(
        re.compile(r"/ui/assets/queues-.*\.js"), lambda route: route.fulfill(status=404, body=""), times=1
    )
    page.evaluate("window.notReloaded = true")
    page.get_by_role("navigation").first.get_by_role("link", name="Queues").click()
    expect(page.get_by_role("heading", name="Queues", level=1)).to_be_visible()
    assert not page.evaluate("window.notReloaded")


def test_file_that_stays_away_is_reported_and_not_reloaded_forever(
    cluster: Installation, open_dashboard: Open
) -> None:
    dashboard = open_dashboard(cluster)
    dashboard.expected += ["404", "Failed to load", "Failed to fetch dynamically imported module"]
    page = dashboard.page
    page.route(re.compile(r"/ui/assets/queues-.*\.js"), lambda route: route.fulfill(status=404, body=""))
    page.get_by_role("navigation").first.get_by_role("link", name="Queues").click()
    expect(page.get_by_text("This page could not be loaded")).to_be_visible()
    page.get_by_role("navigation").first.get_by_role("link", name="Nodes").click()
    expect(page.get_by_role("heading", name="Nodes", level=1)).to_be_visible()


def test_new_version_of_the_server_is_announced(cluster: Installation, open_dashboard: Open) -> None:
    dashboard = open_dashboard(cluster)
    dashboard.expected.append("503")
    page = dashboard.page
    answer = {"status": 503, "headers": {"x-tgpu-version": "999.0"}, "body": ""}
    page.route("**/shares*", lambda route: route.fulfill(**answer), times=1)
    page.get_by_role("navigation").first.get_by_role("link", name="Queues").click()
    expect(page.get_by_text("999.0")).to_be_visible()
    expect(page.get_by_role("button", name="Reload")).to_be_visible()


def test_link_of_another_user_asks_before_it_replaces_the_session(
    cluster: Installation, open_dashboard: Open
) -> None:
    dashboard = open_dashboard(cluster)
    dashboard.expected.append("409")
    page = dashboard.page
    me = user_shown(page)
    page.goto(link_of(cluster, OTHER))
    expect(page.get_by_role("heading", name="Change the user?")).to_be_visible()
    expect(page.locator("main")).to_contain_text(f"You are signed in as {me}.")
    expect(page.locator("main")).to_contain_text(f"This link signs you in as {OTHER}.")
    assert "code=" not in page.url
    dashboard.screenshots("signin-other-user")
    assert dashboard.accessibility_faults() == []
    page.get_by_role("link", name=f"Stay signed in as {me}").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.reload()
    expect(page.locator(".user-name")).to_have_text(me)


def test_link_of_another_user_changes_the_user_after_the_question(
    cluster: Installation, open_dashboard: Open
) -> None:
    dashboard = open_dashboard(cluster)
    dashboard.expected.append("409")
    page = dashboard.page
    page.goto(link_of(cluster, OTHER))
    page.get_by_role("button", name=f"Sign in as {OTHER}").click()
    expect(page.locator(".user-name")).to_have_text(OTHER)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def test_used_link_leaves_the_session_as_it_is(cluster: Installation, open_dashboard: Open) -> None:
    dashboard = open_dashboard(cluster)
    dashboard.expected.append("401")
    page = dashboard.page
    me = user_shown(page)
    page.goto(dashboard.link)
    expect(page.get_by_text("this sign-in link was used or has expired", exact=False)).to_be_visible()
    page.get_by_role("link", name=f"Stay signed in as {me}").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.reload()
    expect(page.locator(".user-name")).to_have_text(me)


def test_tabs_share_a_session_when_one_of_them_signs_in_again(
    cluster: Installation, open_dashboard: Open
) -> None:
    dashboard = open_dashboard(cluster)
    first = dashboard.page
    second = first.context.new_page()
    second.goto(sign_in_link(cluster))
    expect(second.get_by_role("heading", name="Overview")).to_be_visible()
    first.get_by_role("navigation").first.get_by_role("link", name="Reports").click()
    expect(first.locator(".page-aside")).to_contain_text("All users")
    second.reload()
    expect(second.get_by_role("heading", name="Overview")).to_be_visible()


def test_tabs_sign_out_together(cluster: Installation, open_dashboard: Open) -> None:
    dashboard = open_dashboard(cluster)
    first = dashboard.page
    second = first.context.new_page()
    second.goto(f"{dashboard.base}/ui/")
    expect(second.get_by_role("heading", name="Overview")).to_be_visible()
    second.get_by_role("button", name="User ").click()
    second.get_by_role("menuitem", name="Sign out").click()
    expect(first.get_by_text("You are signed out.")).to_be_visible()
    assert first.evaluate("localStorage.length") == 0


def test_times_are_right_on_a_machine_whose_clock_is_hours_ahead(
    cluster: Installation, open_dashboard: Open
) -> None:
    job_id = cluster.submit("--name", "timed", "--", "sleep", "600")
    cluster.wait_status(job_id, "running")
    dashboard = open_dashboard(cluster, sign_in=False)
    dashboard.page.add_init_script(CLOCK_AHEAD)
    dashboard.sign_in()
    page = dashboard.open("/jobs?q=timed")
    row = page.get_by_role("row").filter(has_text="timed")
    expect(row).to_contain_text(re.compile(r"just now|\d+ s ago|\d min ago"))
    expect(row).not_to_contain_text(re.compile(r"\d h|5:\d\d:\d\d"))
    page = dashboard.open(f"/jobs/{job_id}")
    expect(page.locator("main")).to_contain_text("timed")
    expect(page.locator("main")).not_to_contain_text(re.compile(r"\b[45] h\b|in \d"))
    cluster.tgpu("cancel", "--now", str(job_id))
