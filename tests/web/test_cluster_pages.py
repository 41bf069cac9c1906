"""Overview, Nodes and Node: live without a reload, drain, undrain, reserve, and what others may not see."""

import os
import pwd
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.whole_tgpu import Installation, an_installation
from tests.web.dashboard import WITHIN_MS, Dashboard
from tgpu.client import Client

OTHER = "nobody"
expect.set_options(timeout=WITHIN_MS)


@pytest.fixture(scope="module")
def place() -> Iterator[Installation]:
    """A workstation with 8 GPUs of which two users hold some."""
    with an_installation() as one:
        one.up()
        yield one


@pytest.fixture
def node(place: Installation) -> str:
    with place.client() as client:
        return str(client.nodes()[0]["node_id"])


def me() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def token_of(place: Installation, user: str, **more: object) -> str:
    with place.client() as client:
        return str(client.create_token(user_id=user, **more)["token"])


def submit_as(place: Installation, dashboard: Dashboard, user: str, **fields: object) -> int:
    port = dashboard.base.rsplit(":", 1)[1]
    with Client(f"http://127.0.0.1:{port}", token=token_of(place, user)) as client:
        return int(client.submit(["sleep", "600"], cwd="/tmp", **fields)["job_id"])


@pytest.fixture
def overview(place: Installation, open_dashboard: Callable[..., Dashboard]) -> Dashboard:
    dashboard = open_dashboard(place)
    dashboard.open("/")
    dashboard.page.get_by_role("heading", name="GPUs", exact=True).wait_for()
    return dashboard


def test_overview_follows_jobs_without_a_reload(place: Installation, overview: Dashboard) -> None:
    page = overview.page
    cards = page.locator(".gpu-card")
    expect(cards).to_have_count(8)
    free = page.locator(".gpu-free")
    expect(free).to_have_count(8)
    page.evaluate("window.notReloaded = true")
    job = place.sleeper("--gpus", "2", "--name", "train")
    expect(free).to_have_count(6)
    expect(page.locator(".gpu-card", has_text=me())).to_have_count(2)
    expect(page.get_by_role("link", name=f"{job} · train")).to_be_visible()
    expect(page.locator(".event-list")).to_contain_text(f"Job {job}")
    place.tgpu("cancel", str(job))
    expect(free).to_have_count(8)
    assert page.evaluate("window.notReloaded")


def test_overview_says_why_an_own_job_is_pending_and_when_it_starts(
    place: Installation, overview: Dashboard
) -> None:
    page = overview.page
    running = place.sleeper("--gpus", "6", "--time", "2h", "--name", "train-large")
    pending = place.sleeper("--gpus", "4", "--time", "1h", "--name", "evaluate")
    card = page.locator(".panel", has=page.get_by_role("heading", name="Your jobs"))
    expect(card).to_contain_text("Expected start")
    expect(card).to_contain_text("Needs 4 GPUs")
    expect(page.locator(".queue-table")).to_contain_text("default")
    overview.screenshots("overview-pending")
    place.tgpu("cancel", str(running), str(pending))
    expect(page.locator(".queue-table")).to_have_count(0)


def test_legend_shows_one_user_and_is_kept_in_the_address(place: Installation, overview: Dashboard) -> None:
    page = overview.page
    own = place.sleeper("--gpus", "3")
    other = submit_as(place, overview, OTHER, gpu_request=2, name="<script>alert(1)</script>")
    expect(page.locator(".gpu-card", has_text=OTHER)).to_have_count(2)
    page.get_by_role("button", name=f"{OTHER} 2").click()
    expect(page.locator(".gpu-dimmed")).to_have_count(6)
    assert f"user={OTHER}" in page.url
    overview.screenshots("overview")
    assert overview.accessibility_faults() == []
    page.get_by_role("button", name=f"{OTHER} 2").click()
    expect(page.locator(".gpu-dimmed")).to_have_count(0)
    place.tgpu("cancel", str(own), str(other))


def test_overview_and_nodes_fit_a_narrow_screen(
    place: Installation, node: str, open_dashboard: Callable[..., Dashboard]
) -> None:
    dashboard = open_dashboard(place, width=380, height=800)
    for path, name in (("/", "overview"), ("/nodes", "nodes"), (f"/nodes/{node}", "node")):
        page = dashboard.open(path)
        page.locator(".gpu-card, .table-rows .table-row, .device").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        dashboard.screenshots(f"{name}-narrow")


def drain_dialog(page: Page, reason: str) -> None:
    page.get_by_label("Reason").fill(reason)
    page.get_by_role("dialog").get_by_role("button", name="Drain").click()


def test_nodes_are_drained_and_undrained_from_the_list(
    place: Installation, node: str, open_dashboard: Callable[..., Dashboard]
) -> None:
    dashboard = open_dashboard(place)
    page = dashboard.open("/nodes")
    page.get_by_role("checkbox", name=f"Select node {node}").click()
    page.get_by_role("button", name="Drain", exact=True).click()
    drain_dialog(page, "new fans")
    row = page.locator(".table-rows .table-row")
    expect(row).to_contain_text("draining")
    expect(row).to_contain_text("new fans")
    dashboard.screenshots("nodes")
    assert dashboard.accessibility_faults() == []
    page.get_by_label("Status").select_option("ready")
    dashboard.wait_for_text("No node matches the filters")
    assert "status=ready" in page.url
    page.get_by_role("button", name="Clear filters").click()
    page.get_by_role("checkbox", name=f"Select node {node}").click()
    page.get_by_role("button", name="Undrain").click()
    page.get_by_role("dialog").get_by_role("button", name="Undrain").click()
    expect(row).to_contain_text("ready")


def test_node_page_shows_tasks_and_reserves_the_node(
    place: Installation, node: str, open_dashboard: Callable[..., Dashboard]
) -> None:
    job = place.sleeper("--gpus", "2", "--name", "train", "--time", "1h")
    dashboard = open_dashboard(place)
    page = dashboard.open(f"/nodes/{node}")
    expect(page.locator(".device", has_text=f"Job {job}")).to_have_count(2)
    expect(page.locator(".plain-table")).to_contain_text("train")
    page.get_by_role("button", name="Reserve").click()
    page.get_by_label("Purpose").fill("cooling")
    page.get_by_role("dialog").get_by_role("button", name="Reserve").click()
    windows = page.locator(".node-windows")
    expect(windows).to_contain_text("cooling")
    expect(page.locator(".page-header")).to_contain_text("maintenance")
    page.get_by_role("button", name="Drain", exact=True).click()
    drain_dialog(page, "replacing GPU 3")
    dashboard.wait_for_text("replacing GPU 3")
    dashboard.screenshots("node")
    assert dashboard.accessibility_faults() == []
    windows.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel reservation").click()
    expect(windows).to_have_count(0)
    page.get_by_role("button", name="Undrain").click()
    page.get_by_role("dialog").get_by_role("button", name="Undrain").click()
    expect(page.locator(".node-notice")).to_have_count(0)
    place.tgpu("cancel", str(job))


def test_viewer_sees_no_action_that_would_be_refused(
    place: Installation, node: str, open_dashboard: Callable[..., Dashboard]
) -> None:
    dashboard = open_dashboard(place, token=token_of(place, OTHER))
    page = dashboard.open("/nodes")
    page.locator(".table-rows .table-row").first.wait_for()
    assert page.get_by_role("checkbox").count() == 0
    page = dashboard.open(f"/nodes/{node}")
    page.locator(".device").first.wait_for()
    for name in ("Drain", "Undrain", "Reserve"):
        assert page.get_by_role("button", name=name, exact=True).count() == 0


def test_unknown_node_says_so(place: Installation, open_dashboard: Callable[..., Dashboard]) -> None:
    dashboard = open_dashboard(place)
    dashboard.expected.append("404")
    dashboard.open("/nodes/no-such-node")
    dashboard.wait_for_text("Not found")
