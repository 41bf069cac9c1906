"""A real Chromium that is signed in to the dashboard of an installation."""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, sync_playwright

from tgpu.client import Client

CHROMIUM = "/usr/bin/chromium"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking")


@contextmanager
def signed_in(client: Client) -> Iterator[tuple[Page, str]]:
    """A page, and the URL of the server without a path."""
    link = str(client.session.call("POST", "/session/links", body={})["url"])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1360, "height": 900})
        page.set_default_timeout(120_000)
        page.goto(link)
        page.get_by_text("Live", exact=True).wait_for()
        yield page, link.partition("/ui/")[0]
        browser.close()
