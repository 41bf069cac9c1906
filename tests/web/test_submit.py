"""The submit page: a form and pasted files, checked while they are written, with the scheduler's plan."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.end_to_end.whole_tgpu import Installation
from tests.web.dashboard import WITHIN_MS, Dashboard

expect.set_options(timeout=WITHIN_MS)
SBATCH = """#!/bin/bash
#SBATCH --job-name=fit
#SBATCH --gres=gpu:1
#SBATCH --time=00:10:00
echo fitted
"""


def control(page: Page, key: str) -> Locator:
    """Of the field with this key in job files."""
    return page.locator(f"[data-field={key}]").locator("input, textarea, select")


def card(page: Page) -> str:
    return page.get_by_label("Plan preview").inner_text()


def wait_for_plan(page: Page, text: str) -> None:
    expect(page.get_by_label("Plan preview")).to_contain_text(re.compile(text))


@pytest.fixture
def full(cluster: Installation) -> Iterator[int]:
    """All GPUs are taken for another hour."""
    job_id = cluster.submit("--gpus", "8", "--time", "1h", "--", "sleep", "3600")
    cluster.wait_status(job_id, "running")
    yield job_id
    cluster.tgpu("cancel", str(job_id))
    cluster.wait_status(job_id, "cancelled")


def test_job_is_previewed_and_submitted_from_the_form(dashboard: Dashboard, cluster: Installation) -> None:
    page = dashboard.open("/submit")
    wait_for_plan(page, "No job yet")
    expect(page.get_by_role("button", name="Submit job")).to_be_disabled()
    control(page, "command").fill("echo submitted-from-a-page")
    control(page, "name").fill("from-page")
    control(page, "gpus").fill("2")
    control(page, "time").fill("5m")
    wait_for_plan(page, r"Starts now on \S+ with GPU \d, \d")
    dashboard.screenshots("submit-form")
    assert dashboard.accessibility_faults() == []
    page.get_by_text("As a command").click()
    page.get_by_text(
        "tgpu submit --name from-page --time 5m --gpus 2 -- echo submitted-from-a-page"
    ).wait_for()
    page.get_by_role("button", name="Submit job").click()
    page.wait_for_url(re.compile(r"/ui/jobs/\d+$"))
    job_id = int(page.url.rpartition("/")[2])
    job = cluster.wait_status(job_id, "completed")
    assert (job["name"], job["gpu_request"], job["time_limit_s"]) == ("from-page", 2, 300)
    page.get_by_role("button", name="Submit another").click()
    page.wait_for_url(re.compile(rf"/ui/submit\?like={job_id}"))
    expect(control(page, "name")).to_have_value("from-page")
    expect(control(page, "time")).to_have_value("5m")


def test_job_that_has_to_wait_is_told_when_it_starts(dashboard: Dashboard, full: int) -> None:
    page = dashboard.open("/submit")
    control(page, "command").fill("python train.py")
    control(page, "gpus").fill("4")
    control(page, "time").fill("2h")
    wait_for_plan(page, "Starts in")
    assert full
    dashboard.screenshots("submit-waits")


def test_problem_is_shown_beside_its_field(dashboard: Dashboard) -> None:
    page = dashboard.open("/submit")
    control(page, "command").fill("true")
    control(page, "memory").fill("a lot")
    field = page.locator("[data-field=memory]")
    expect(field.get_by_role("alert")).to_contain_text("memory must be")
    control(page, "memory").fill("1G")
    expect(field.get_by_role("alert")).to_have_count(0)
    control(page, "tenant").fill("no-such-tenant")
    expect(page.locator("[data-field=tenant]").get_by_role("alert")).to_contain_text("no-such-tenant")
    control(page, "gpus").fill("1.5")
    control(page, "tenant").fill("")
    expect(page.locator("[data-field=gpus]").get_by_role("alert")).to_contain_text(
        "GPUs must be a fraction below 1"
    )
    expect(page.get_by_role("button", name="Submit job")).to_be_disabled()
    dashboard.screenshots("submit-problem")


def test_job_that_can_never_run_is_told_so(dashboard: Dashboard) -> None:
    page = dashboard.open("/submit")
    control(page, "command").fill("true")
    control(page, "gpus").fill("9")
    wait_for_plan(page, "Can never run here")
    assert "8" in card(page)


def test_batch_script_is_pasted_and_submitted(dashboard: Dashboard, cluster: Installation) -> None:
    page = dashboard.open("/submit")
    page.get_by_role("tab", name="Paste a file").click()
    text = page.get_by_role("textbox", name="Job file")
    text.fill(SBATCH.replace("00:10:00", "soon"))
    page.get_by_role("button", name="Line 4").wait_for()
    expect(page.locator(".editor-mark")).to_have_text("4")
    dashboard.screenshots("submit-file-problem")
    text.fill(SBATCH)
    page.get_by_text("Slurm batch script, 1 job").wait_for()
    wait_for_plan(page, "Starts now on")
    dashboard.screenshots("submit-file")
    assert dashboard.accessibility_faults() == []
    page.get_by_role("button", name="Submit job").click()
    page.wait_for_url(re.compile(r"/ui/jobs/\d+$"))
    job = cluster.wait_status(int(page.url.rpartition("/")[2]), "completed")
    assert (job["name"], job["gpu_request"]) == ("fit", 1)


def test_form_goes_on_as_a_file_of_several_jobs(dashboard: Dashboard) -> None:
    page = dashboard.open("/submit")
    control(page, "command").fill("make\nmake check")
    page.get_by_text("As a job file").click()
    page.get_by_role("button", name="Edit as a file").click()
    text = page.get_by_role("textbox", name="Job file")
    expect(text).to_have_value("command: |\n  make\n  make check\n")
    text.fill("jobs:\n  prepare: {command: 'true'}\n  train: {command: 'true', gpus: 1, needs: prepare}\n")
    wait_for_plan(page, "1 of 2 jobs start now")
    expect(page.get_by_role("button", name="Submit 2 jobs")).to_be_enabled()
    dashboard.screenshots("submit-several")


def test_page_works_on_a_phone(cluster: Installation, open_dashboard: Callable[..., Dashboard]) -> None:
    dashboard = open_dashboard(cluster, width=380, height=760)
    page = dashboard.open("/submit")
    control(page, "command").fill("python train.py")
    control(page, "gpus").fill("1")
    page.get_by_text("Environment and files").click()
    control(page, "env").fill("EPOCHS=10")
    expect(page.get_by_role("button", name="Submit job")).to_be_enabled()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    dashboard.screenshots("submit-phone")
    page.screenshot(path="tests/web/screenshots/submit-phone-view.png")
    assert dashboard.accessibility_faults() == []
