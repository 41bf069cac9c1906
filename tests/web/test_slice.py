"""Part of the browser tests that `make test` runs, within 30 s."""

from tests.web.dashboard import Dashboard


def test_one_time_link_signs_in_and_every_menu_entry_opens_its_page(dashboard: Dashboard) -> None:
    page = dashboard.page
    names = page.get_by_role("navigation").first.get_by_role("link").all_inner_texts()
    assert {"Overview", "Jobs", "Nodes"} <= set(names)
    for name in names:
        page.get_by_role("navigation").first.get_by_role("link", name=name, exact=True).click()
        page.get_by_role("heading", level=1).first.wait_for()
    assert page.get_by_role("status").filter(has_text="Live").count() == 1
