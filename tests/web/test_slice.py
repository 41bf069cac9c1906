"""Part of the browser tests that `make test` runs, within 30 s."""

from tests.web.dashboard import ROOT, Dashboard

MOST_BYTES = 250_000
MOST_BYTES_AT_FIRST = 100_000
ASSETS = """performance.getEntriesByType('resource').filter(file => file.name.includes('/ui/assets/'))
    .reduce((sum, file) => sum + file.encodedBodySize, 0)"""


def test_one_time_link_signs_in_and_every_menu_entry_opens_its_page(dashboard: Dashboard) -> None:
    page = dashboard.page
    page.get_by_role("heading", name="GPUs", exact=True).wait_for()
    assert 20_000 < page.evaluate(ASSETS) < MOST_BYTES_AT_FIRST
    names = page.get_by_role("navigation").first.get_by_role("link").all_inner_texts()
    assert {"Overview", "Jobs", "Nodes"} <= set(names)
    for name in names:
        page.get_by_role("navigation").first.get_by_role("link", name=name, exact=True).click()
        page.get_by_role("heading", level=1).first.wait_for()
    assert page.get_by_role("status").filter(has_text="Live").count() == 1


def test_all_files_of_the_dashboard_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in (ROOT / "src/tgpu/dashboard").rglob("*.gz")}
    assert any(name.startswith("index.html") for name in sizes)
    assert sum(sizes.values()) < MOST_BYTES, sorted(sizes.items(), key=lambda one: -one[1])
