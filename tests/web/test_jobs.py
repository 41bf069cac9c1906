"""Jobs, a job and its terminal in a real browser, against a real tgpu with real jobs."""

import re
import time
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from tests.end_to_end.whole_tgpu import Installation, an_installation
from tests.web.dashboard import WITHIN_MS, Dashboard

NASTY = "<script>alert(1)</script>"
NASTY_OUTPUT = (
    r"printf '\033[31mred\033[0m \033]0;title\007<img src=x onerror=alert(1)> \033[2Jend\n'; "
    r"head -c 1000000 /dev/zero | tr '\0' x; echo; echo last line; sleep 600"
)


@pytest.fixture(scope="module")
def busy() -> Iterator[Installation]:
    """A tgpu of its own: these tests cancel what they find."""
    with an_installation() as one:
        one.up()
        yield one


def test_jobs_are_searched_filtered_and_sorted_in_the_url(
    busy: Installation, open_dashboard: Callable[..., Dashboard]
) -> None:
    first = busy.submit("--name", "alpha", "--", "true")
    busy.submit("--name", "beta", "--hold", "--", "true")
    dashboard = open_dashboard(busy)
    page = dashboard.open("/jobs")
    page.get_by_label("Search jobs").fill("alph")
    expect(page.get_by_role("row")).to_have_count(2, timeout=WITHIN_MS)
    assert "q=alph" in page.url
    page.reload()
    expect(page.get_by_label("Search jobs")).to_have_value("alph", timeout=WITHIN_MS)
    page.get_by_label("Search jobs").fill("[a-")
    expect(page.get_by_text("No job matches")).to_be_visible(timeout=WITHIN_MS)
    page.get_by_role("button", name="Remove search and filters").click()
    page.get_by_role("columnheader").get_by_role("button", name="Name").click()
    page.wait_for_url("**sort=name**")
    page.get_by_role("row").filter(has_text="alpha").get_by_role("link", name=str(first)).click()
    page.wait_for_url(f"**/jobs/{first}")


def test_job_that_is_submitted_appears_without_reload(
    busy: Installation, open_dashboard: Callable[..., Dashboard]
) -> None:
    dashboard = open_dashboard(busy)
    page = dashboard.open("/jobs")
    busy.submit("--name", "fresh", "--hold", "--", "true")
    expect(page.get_by_role("row").filter(has_text="fresh")).to_be_visible(timeout=WITHIN_MS)
    expect(page.get_by_role("row").filter(has_text="fresh").get_by_text("held", exact=True)).to_be_visible()


def test_selected_jobs_are_cancelled_and_refusals_are_listed(
    busy: Installation, open_dashboard: Callable[..., Dashboard]
) -> None:
    ended = busy.submit("--name", "bulk-ended", "--", "true")
    live = [busy.submit("--name", f"bulk-{number}", "--hold", "--", "true") for number in range(3)]
    busy.tgpu("wait", str(ended))
    dashboard = open_dashboard(busy)
    page = dashboard.open("/jobs?q=bulk-")
    expect(page.get_by_role("row")).to_have_count(5, timeout=WITHIN_MS)
    page.get_by_label(f"Select job {live[-1]}").click()
    page.get_by_label(f"Select job {ended}").click(modifiers=["Shift"])
    bar = page.get_by_role("toolbar", name="Actions on selected jobs")
    expect(bar).to_contain_text("4 selected")
    bar.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("3 pending jobs will not start")
    expect(dialog).to_contain_text("1 selected job cannot be changed")
    dialog.get_by_role("button", name="Cancel 4 jobs").click()
    expect(dialog).to_contain_text("3 jobs being cancelled", timeout=WITHIN_MS)
    expect(dialog).to_contain_text("It has already ended.")
    dialog.get_by_role("button", name="Close", exact=True).last.click()
    rows = page.get_by_role("row").filter(has_text="cancelled")
    expect(rows).to_have_count(3, timeout=WITHIN_MS)
    assert all(busy.status(job_id) == "cancelled" for job_id in live)


def test_log_is_followed_and_searched(busy: Installation, open_dashboard: Callable[..., Dashboard]) -> None:
    gate = busy.files / "gate"
    job_id = busy.submit(
        "--", "sh", "-c", f"echo first; while ! test -e {gate}; do sleep 0.05; done; echo second"
    )
    dashboard = open_dashboard(busy)
    page = dashboard.open(f"/jobs/{job_id}?tab=log")
    log = page.get_by_role("log")
    expect(log).to_contain_text("first", timeout=WITHIN_MS)
    began = time.monotonic()
    gate.touch()
    expect(log).to_contain_text("second", timeout=WITHIN_MS)
    print(f"log follow took {time.monotonic() - began:.3f} s")
    page.get_by_label("Search the log").fill("SECOND")
    expect(page.get_by_text("1 of 1")).to_be_visible()
    expect(log.locator("mark")).to_have_text("second")
    page.get_by_title("Regular expression").click()
    page.get_by_label("Search the log").fill("[a-")
    expect(page.get_by_role("alert")).to_contain_text("Not a regular expression")
    expect(page.get_by_text("The output is complete.")).to_be_visible(timeout=WITHIN_MS)


def test_log_shows_time_stamps_that_this_browser_remembers(
    busy: Installation, open_dashboard: Callable[..., Dashboard]
) -> None:
    job_id = busy.submit("--", "sh", "-c", "echo first; echo second")
    dashboard = open_dashboard(busy)
    page = dashboard.open(f"/jobs/{job_id}?tab=log")
    log, toggle = page.get_by_role("log"), page.get_by_role("button", name="Time stamps")
    expect(log).to_contain_text("second", timeout=WITHIN_MS)
    expect(log.locator("time")).to_have_count(0)
    toggle.click()
    expect(log.locator("time")).to_have_text([re.compile(r"^\d\d:\d\d:\d\d\.\d{3}$")] * 2)
    log.locator("time").first.hover()
    expect(log.locator("time").first).to_have_attribute("title", re.compile(r"^\w+ \d+, 20\d\d, \d\d:\d\d"))
    page.reload()
    expect(toggle).to_have_attribute("aria-pressed", "true", timeout=WITHIN_MS)
    expect(log.locator("time")).to_have_count(2, timeout=WITHIN_MS)


def test_names_and_output_with_markup_and_escapes_are_shown_as_text(
    busy: Installation, open_dashboard: Callable[..., Dashboard]
) -> None:
    job_id = busy.submit("--name", NASTY, "--", "sh", "-c", NASTY_OUTPUT)
    dashboard = open_dashboard(busy)
    opened: list[str] = []
    dashboard.page.on("dialog", lambda dialog: (opened.append(dialog.message), dialog.dismiss()))
    page = dashboard.open("/")
    expect(page.locator("main").get_by_text(NASTY).first).to_be_visible(timeout=WITHIN_MS)
    page = dashboard.open("/timeline?view=table")
    expect(page.get_by_role("row").filter(has_text=NASTY)).to_be_visible(timeout=WITHIN_MS)
    page = dashboard.open("/jobs")
    expect(page.get_by_role("row").filter(has_text=NASTY)).to_be_visible(timeout=WITHIN_MS)
    page = dashboard.open(f"/jobs/{job_id}?tab=log")
    expect(page.get_by_role("heading", level=1)).to_contain_text(NASTY)
    log = page.get_by_role("log")
    expect(log).to_contain_text("last line", timeout=WITHIN_MS)
    log.focus()
    page.get_by_role("button", name="Following").click()
    page.get_by_label("Search the log").fill("<img")
    older = page.get_by_role("button", name="Search older output")
    expect(older.or_(page.get_by_text("1 of 1"))).to_be_visible(timeout=WITHIN_MS)
    if older.is_visible():
        older.click()
    expect(page.get_by_text("1 of 1")).to_be_visible(timeout=WITHIN_MS)
    page.get_by_label("Next match").click()
    expect(log).to_contain_text("red <img src=x onerror=alert(1)> end")
    assert log.locator("img").count() == 0
    assert log.locator(".ansi-fg-1").first.inner_text() == "red"
    assert NASTY in page.title()
    assert opened == []
    busy.tgpu("cancel", "--now", str(job_id))


def test_pending_job_shows_why_and_its_advice_can_be_applied(
    busy: Installation, open_dashboard: Callable[..., Dashboard]
) -> None:
    holder = busy.sleeper("--gpus", "7", "--name", "holder")
    busy.wait_status(holder, "running")
    waiting = busy.submit("--gpus", "4", "--time", "1h", "--", "sleep", "600")
    dashboard = open_dashboard(busy)
    page = dashboard.open(f"/jobs/{waiting}")
    expect(page.get_by_text("Needs 4 GPUs")).to_be_visible(timeout=WITHIN_MS)
    expect(page.get_by_role("row").filter(has_text="holder")).to_be_visible()
    page.get_by_role("button", name="Apply…").click()
    expect(page.get_by_label("GPUs", exact=True)).to_have_value("1")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("header .status")).to_have_text("running", timeout=WITHIN_MS)
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel job").click()
    expect(page.locator("header .status")).to_have_text("cancelled", timeout=WITHIN_MS)
    expect(page.get_by_role("button", name="Retry")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    busy.tgpu("cancel", "--now", str(holder))


def test_terminal_runs_a_command_inside_the_job(
    busy: Installation, open_dashboard: Callable[..., Dashboard]
) -> None:
    job_id = busy.sleeper("--env", "COLOUR=teal")
    busy.wait_status(job_id, "running")
    dashboard = open_dashboard(busy)
    page = dashboard.open(f"/jobs/{job_id}/terminal")
    expect(page.get_by_text("Connected to")).to_be_visible(timeout=WITHIN_MS)
    page.keyboard.type("printf '\\033[38;2;10;200;30mit is %s\\033[0m\\n' $COLOUR\n")
    expect(page.locator(".xterm-rows")).to_contain_text("it is teal", timeout=WITHIN_MS)
    page.keyboard.type("exit 3\n")
    expect(page.get_by_role("status").filter(has_text="exit code 3")).to_be_visible(timeout=WITHIN_MS)
    page.get_by_role("button", name="Open again").click()
    expect(page.get_by_text("Connected to")).to_be_visible(timeout=WITHIN_MS)
    busy.tgpu("cancel", "--now", str(job_id))


def test_array_and_dependencies_are_drawn(
    busy: Installation, open_dashboard: Callable[..., Dashboard]
) -> None:
    array = busy.submit("--array", "0-99", "--cpus", "0.1", "--", "sh", "-c", "test $TGPU_TASK_INDEX != 7")
    after = busy.submit("--name", "behind", "--dependency", f"afterany:{array}", "--hold", "--", "true")
    dashboard = open_dashboard(busy)
    page = dashboard.open(f"/jobs/{array}?tab=tasks")
    expect(page.get_by_role("img", name="1 failed")).to_be_visible(timeout=WITHIN_MS)
    page.get_by_role("button", name="failed").click()
    expect(page.get_by_role("grid", name="Tasks").get_by_role("row")).to_have_count(2)
    page.get_by_role("tab", name="Dependencies").click()
    page.get_by_role("link", name=f"Job {after} behind").click()
    page.wait_for_url(f"**/jobs/{after}?tab=dependencies")


def test_array_of_100_000_tasks_is_drawn_whole_and_listed_to_its_end(
    busy: Installation, open_dashboard: Callable[..., Dashboard]
) -> None:
    array = busy.submit("--array", "0-99999", "--hold", "--", "true")
    busy.tgpu("cancel", f"{array}.[70000-70999]")
    dashboard = open_dashboard(busy)
    page = dashboard.open(f"/jobs/{array}?tab=tasks")
    drawn = page.get_by_role("img", name="100,000 tasks: 99,000 pending, 1,000 cancelled")
    expect(drawn).to_be_visible(timeout=WITHIN_MS)
    table = page.get_by_role("grid", name="Tasks")
    expect(table.get_by_role("row").filter(has_text="pending").first).to_be_visible(timeout=WITHIN_MS)
    table.focus()
    page.keyboard.press("End")
    expect(table.get_by_role("gridcell", name="99999", exact=True)).to_be_visible(timeout=WITHIN_MS)
    dashboard.screenshots("job-array-100000")
    page.get_by_role("button", name="cancelled").click()
    expect(table.get_by_role("gridcell", name="70000", exact=True)).to_be_visible(timeout=WITHIN_MS)
    expect(table).to_have_attribute("aria-rowcount", "1001")
    page.get_by_role("button", name="cancelled").click()
    drawn.click(position={"x": 2, "y": 2})
    page.wait_for_url("**tasks=0-*")
    expect(page.get_by_text("Tasks 0 to ").last).to_be_visible()
    expect(table.get_by_role("gridcell", name="0", exact=True).first).to_be_visible(timeout=WITHIN_MS)
    page.get_by_role("button", name="All tasks").click()
    expect(table).to_have_attribute("aria-rowcount", "100001")
    busy.tgpu("cancel", str(array))


def test_pages_of_jobs_have_no_serious_accessibility_fault(
    busy: Installation, open_dashboard: Callable[..., Dashboard]
) -> None:
    job_id = busy.sleeper("--name", "steady")
    pending = busy.submit("--name", "later", "--gpus", "8", "--hold", "--", "true")
    busy.wait_status(job_id, "running")
    dashboard = open_dashboard(busy, bypass_csp=True)
    for name, path in (
        ("jobs", "/jobs"),
        ("job", f"/jobs/{pending}"),
        ("job-log", f"/jobs/{job_id}?tab=log"),
        ("job-usage", f"/jobs/{job_id}?tab=usage"),
        ("job-specification", f"/jobs/{job_id}?tab=specification"),
        ("terminal", f"/jobs/{job_id}/terminal"),
    ):
        dashboard.expected.append("404")  # usage of a job that has just started
        page = dashboard.open(path)
        page.get_by_label("Loading").first.wait_for(state="detached")
        assert dashboard.accessibility_faults() == [], name
        dashboard.screenshots(name)
    busy.tgpu("cancel", "--now", str(job_id), str(pending))


def test_pages_fit_a_phone(busy: Installation, open_dashboard: Callable[..., Dashboard]) -> None:
    job_id = busy.submit("--name", "x" * 80, "--hold", "--", "true")
    dashboard = open_dashboard(busy, width=380, height=760)
    for path in ("/jobs", f"/jobs/{job_id}", f"/jobs/{job_id}?tab=log", f"/jobs/{job_id}?tab=specification"):
        page = dashboard.open(path)
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= 380, path
    busy.tgpu("cancel", str(job_id))


def test_job_of_another_tenant_is_neither_listed_nor_reachable(
    open_dashboard: Callable[..., Dashboard],
) -> None:
    with an_installation() as one:
        one.environ["TGPU_OTHERS_SEE"] = "nothing"
        one.up()
        with one.client() as client:
            client.create_tenant("red")
            client.create_tenant("blue")
            client.set_member("nobody", "red", role="user")
            hidden = client.submit(["sleep", "600"], name="hidden-blue", tenant_id="blue")["job_id"]
            token = client.create_token(user_id="nobody", role="user")["token"]
        dashboard = open_dashboard(one, token=token)
        dashboard.expected.append("404")
        page = dashboard.open("/jobs?q=hidden")
        expect(page.get_by_text("No job matches")).to_be_visible(timeout=WITHIN_MS)
        page = dashboard.open("/jobs")
        expect(page.get_by_text("There are no jobs yet")).to_be_visible(timeout=WITHIN_MS)
        for path in (f"/jobs/{hidden}", f"/jobs/{hidden}?tab=log", f"/jobs/{hidden}/terminal"):
            page = dashboard.open(path)
            expect(page.get_by_text(f"There is no job {hidden}")).to_be_visible(timeout=WITHIN_MS)
        page.close()  # before its server goes
