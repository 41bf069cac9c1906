"""Pages of queues, timeline, reports and administration in a real browser."""

import csv
import io
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from playwright.sync_api import expect

from tests.end_to_end.whole_tgpu import Installation, an_installation
from tests.web.dashboard import WITHIN_MS, Dashboard

PAGES = {
    "queues": "/queues?open=default,lab/vision",
    "timeline": "/timeline?since={past}&until={ahead}",
    "timeline-table": "/timeline?past=21600000&view=table",
    "reports": "/reports?range=1d",
    "admin-users": "/admin?tab=users",
    "admin-tokens": "/admin?tab=tokens",
    "admin-secrets": "/admin?tab=secrets",
    "admin-nodes": "/admin?tab=nodes",
    "admin-audit": "/admin?tab=audit",
    "admin-servers": "/admin?tab=servers",
    "admin-settings": "/admin?tab=settings",
}


@pytest.fixture(scope="module")
def busy() -> Iterator[Installation]:
    """A tree of tenants with quotas, jobs that ran, failed, run and are pending, a window and a secret."""
    with an_installation() as one:
        one.up()
        with one.client() as client:
            client.create_tenant("lab", weight=3)
            client.create_tenant(
                "lab/vision", weight=2, gpu_limit=12, running_jobs_limit=10, gpu_hours_limit=500
            )
            client.create_tenant("lab/speech", weight=1, over_quota="queue")
            client.create_tenant("org", weight=1)
            client.set_secret("hf-token", b"hf_0123456789")
            client.create_token(note="notebook", role="viewer")
            client.set_member("nobody", "lab", "user")
        done = [one.submit("--name", "prepare", "--gpus", "1", "--", "sleep", "1") for _ in range(3)]
        done.append(one.submit("--name", "broken", "--gpus", "2", "--tenant", "org", "--", "false"))
        for job_id in done:
            one.wait_status(job_id, "completed", "failed")
        running = [
            one.sleeper("--name", "train", "--gpus", "4", "--tenant", "lab/vision", "--time", "2h"),
            one.sleeper("--name", "tune", "--gpus", "0.5", "--tenant", "lab/speech", "--time", "1h"),
            one.sleeper("--name", "evaluate", "--gpus", "0.5", "--tenant", "lab/speech", "--time", "40m"),
            one.sleeper("--name", "<b>chart</b>", "--gpus", "2", "--tenant", "org", "--time", "3h"),
        ]
        for job_id in running:
            one.wait_status(job_id, "running")
        one.sleeper("--name", "next", "--gpus", "6", "--tenant", "lab/vision", "--time", "1h")
        one.sleeper("--name", "later", "--gpus", "8", "--tenant", "org", "--time", "1h")
        yield one


@pytest.fixture
def admin(open_dashboard: Callable[..., Dashboard], busy: Installation) -> Dashboard:
    return open_dashboard(busy)


def loaded(dashboard: Dashboard, path: str) -> None:
    """Opens a page. In the path, {past} and {ahead} stand for some minutes ago and four hours ahead."""
    now = datetime.now(UTC)
    past, ahead = (f"{now + timedelta(minutes=by):%Y-%m-%dT%H:%M:%SZ}" for by in (-6, 240))
    dashboard.open(path.format(past=past, ahead=ahead))
    dashboard.page.locator("main :is(.panel, .table, .timeline, .empty, .settings)").first.wait_for()
    expect(dashboard.page.locator("main .skeleton")).to_have_count(0, timeout=WITHIN_MS)


@pytest.mark.parametrize("name", PAGES)
def test_page_has_screenshots_in_both_themes_and_no_serious_accessibility_fault(
    open_dashboard: Callable[..., Dashboard], busy: Installation, name: str
) -> None:
    wide = open_dashboard(busy, bypass_csp=True)
    loaded(wide, PAGES[name])
    wide.screenshots(name)
    for theme in ("light", "dark"):
        wide.set_theme(theme)
        assert wide.accessibility_faults() == []
    wide.page.set_viewport_size({"width": 380, "height": 780})
    wide.screenshots(f"{name}-phone")
    assert wide.page.evaluate("document.documentElement.scrollWidth") <= 380, "the page is not cut off"


def test_weight_changed_in_the_page_takes_effect_and_a_conflict_shows_both_values(
    admin: Dashboard, busy: Installation
) -> None:
    page = admin.page
    loaded(admin, "/queues")
    page.get_by_role("button", name="Weight of org: 1. Change").click()
    page.get_by_label("Weight of org").fill("4")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Weight of org: 4. Change").wait_for()
    with busy.client() as client:
        assert client.tenant("org")["weight"] == 4
        page.get_by_role("button", name="Weight of org: 4. Change").click()
        client.change_tenant("org", weight=7)
        page.get_by_label("Weight of org").fill("5")
        page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("row", name="Weight 4 7 5").wait_for()
        admin.expected.append("412")
        dialog.get_by_role("button", name="Set 5").click()
        page.get_by_role("button", name="Weight of org: 5. Change").wait_for()
        assert client.tenant("org")["weight"] == 5
        client.change_tenant("org", weight=1)


def test_quota_edited_in_the_page_is_kept_and_a_new_tenant_appears(
    admin: Dashboard, busy: Installation
) -> None:
    page = admin.page
    loaded(admin, "/queues?open=lab/speech")
    page.get_by_role("button", name="Edit quota").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("GPUs", exact=True).fill("3")
    dialog.get_by_label("Memory (GiB)").fill("16")
    dialog.get_by_role("button", name="Save quota").click()
    admin.wait_for_text("of 16 GiB")
    with busy.client() as client:
        quota = client.quota("lab/speech")
    assert (quota["gpu_limit"], quota["mem_limit_mb"]) == (3, 16384)
    page.get_by_role("button", name="Add tenant").click()
    dialog.get_by_label("Parent").select_option("org")
    dialog.get_by_label("Name").fill("new")
    dialog.get_by_role("button", name="Add tenant").click()
    page.get_by_role("button", name="new", exact=True).wait_for()
    with busy.client() as client:
        assert client.tenant("org/new")["weight"] == 1
        client.remove_tenant("org/new")


def test_pending_job_shows_its_reason_on_the_page_of_queues(admin: Dashboard, busy: Installation) -> None:
    loaded(admin, "/queues?open=lab/vision")
    admin.wait_for_text("pending task")
    with busy.client() as client:
        (queue,) = [one for one in client.queues() if one["tenant_id"] == "lab/vision"]
    admin.wait_for_text(queue["head_reasons"][0]["text"][:20])


def test_timeline_shows_a_real_attempt_and_opens_its_job(admin: Dashboard, busy: Installation) -> None:
    page = admin.page
    loaded(admin, "/timeline?since={past}&until={ahead}&view=table")
    row = page.get_by_role("row").filter(has_text="train").first
    row.wait_for()
    assert "Running" in row.inner_text()
    page.get_by_role("row").filter(has_text="Reserved (backfill)").first.wait_for()
    job_id = row.get_by_role("link").inner_text().split(".")[0]
    page.get_by_role("radio", name="Chart").check()
    area = page.get_by_role("group", name="Timeline chart")
    area.wait_for()
    box = page.locator(".timeline-tracks").bounding_box()
    assert box is not None
    # The running attempts begin just left of the line of now.
    now_x = box["x"] + box["width"] * 6 / 246
    tip = page.locator(".timeline-tip")
    for y in range(int(box["y"]) + 34, int(box["y"] + box["height"]), 6):
        page.mouse.move(now_x + 12, y)
        if tip.count() and f"Job {job_id}" in tip.inner_text():
            break
    else:
        raise AssertionError("no block shows the attempt")
    page.mouse.down()
    page.mouse.up()
    page.wait_for_url(f"**/ui/jobs/{job_id}")
    assert busy.show(int(job_id))["name"] == "train"


def test_timeline_zooms_and_moves_by_keys_and_keeps_the_range_in_the_url(admin: Dashboard) -> None:
    page = admin.page
    loaded(admin, "/timeline")
    area = page.get_by_role("group", name="Timeline chart")
    area.focus()
    page.keyboard.press("+")
    page.wait_for_url("**since=**")
    first = page.url
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(lambda url: url != first)
    moved = page.url
    page.reload()
    area.wait_for()
    assert page.url == moved
    page.get_by_role("button", name="Now").click()
    page.wait_for_url(lambda url: "since" not in url)


def test_report_by_tenant_downloads_as_csv(admin: Dashboard) -> None:
    page = admin.page
    loaded(admin, "/reports?range=1d")
    page.get_by_label("Group by").select_option("tenant")
    page.get_by_role("grid").get_by_text("lab/vision").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    assert download.value.suggested_filename == "tgpu-report-tenant-1d.csv"
    rows = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    assert {"default", "lab/vision", "org"} <= {row["tenant"] for row in rows}
    assert all(row["wait_p90_s"] for row in rows)


def test_token_made_in_the_page_works_until_it_is_revoked(admin: Dashboard, busy: Installation) -> None:
    page = admin.page
    loaded(admin, "/admin?tab=tokens")
    page.get_by_role("button", name="New token").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Note").fill("from the browser")
    dialog.get_by_label("Read jobs, nodes and reports").check()
    dialog.get_by_role("button", name="Make token").click()
    text = dialog.locator("code").first.inner_text()
    assert text.startswith("tgpu_")
    dialog.get_by_role("button", name="Done").click()

    def status() -> int:
        address = f"http://127.0.0.1:{admin.base.rpartition(':')[2]}/jobs"
        return httpx.get(address, headers={"Authorization": f"Bearer {text}"}).status_code

    assert status() == 200
    row = page.get_by_role("row").filter(has_text="from the browser")
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke token").click()
    row.wait_for(state="detached")
    assert status() == 401
    with busy.client() as client:
        (made,) = [token for token in client.tokens() if token["note"] == "from the browser"]
    assert (made["revoked"], made["actions"]) == (True, ["read"])


def test_secret_is_set_and_deleted_and_its_value_never_shown(admin: Dashboard, busy: Installation) -> None:
    page = admin.page
    loaded(admin, "/admin?tab=secrets")
    page.get_by_role("button", name="Set a secret").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("web-key")
    dialog.get_by_label("Value").fill("s3cr3t-value")
    dialog.get_by_role("button", name="Set secret").click()
    page.get_by_role("button", name="Delete web-key").wait_for()
    assert "s3cr3t-value" not in page.content()
    page.get_by_role("button", name="Delete web-key").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete secret").click()
    page.get_by_role("button", name="Delete web-key").wait_for(state="detached")
    with busy.client() as client:
        assert [secret["name"] for secret in client.secrets()] == ["hf-token"]


def test_audit_log_is_filtered_by_action(admin: Dashboard) -> None:
    page = admin.page
    loaded(admin, "/admin?tab=audit")
    page.get_by_label("Action", exact=True).fill("member")
    page.wait_for_url("**action=member**")
    page.get_by_role("button", name="member.").first.wait_for()
    expect(page.locator(".table-rows .admin-link")).to_have_text([re.compile("^member")], timeout=WITHIN_MS)


def test_viewer_sees_no_action_that_would_be_refused(
    open_dashboard: Callable[..., Dashboard], busy: Installation
) -> None:
    with busy.client() as client:
        token = client.create_token(note="viewer", role="viewer")["token"]
    viewer = open_dashboard(busy, token=token)
    page = viewer.page
    assert page.get_by_role("link", name="Admin").count() == 0
    loaded(viewer, "/queues?open=lab/vision")
    viewer.wait_for_text("lab")
    for name in ("Add tenant", "Edit quota", "Change"):
        assert page.get_by_role("button", name=name).count() == 0, name
    loaded(viewer, "/timeline")
    loaded(viewer, "/reports")
    viewer.open("/admin?tab=settings")
    viewer.wait_for_text("Nothing for you to administer")
