"""A browser tab with the dashboard of one installation, as a user has it."""

import json
import re
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, ConsoleMessage, Page, Response

from tests.end_to_end.whole_tgpu import Installation

ROOT = Path(__file__).parents[2]
SCREENSHOTS = Path(__file__).parent / "screenshots"
AXE = ROOT / "web/node_modules/axe-core/axe.min.js"
WITHIN_MS = 60_000
"""Deadline of every wait: generous, because the machine may be busy."""
Theme = Literal["light", "dark"]


def sign_in_link(installation: Installation) -> str:
    """A one-time link for the user that calls, asked for at the unix socket."""
    with installation.client() as client:
        url = client.session.call("POST", "/session/links", body={})["url"]
    assert isinstance(url, str)
    return url


class Dashboard:
    """`page` is Playwright's. `close` fails on errors in the console and on requests to other hosts."""

    def __init__(
        self,
        browser: Browser,
        installation: Installation,
        *,
        token: str | None = None,
        theme: Theme = "light",
        width: int = 1360,
        height: int = 900,
        sign_in: bool = True,
        bypass_csp: bool = False,
    ) -> None:
        self.installation = installation
        self.link = sign_in_link(installation)
        self.base = re.sub(r"/ui/.*", "", self.link)
        self._context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=theme,
            reduced_motion="reduce",
            bypass_csp=bypass_csp,
        )
        self._context.set_default_timeout(WITHIN_MS)
        self.page = self._context.new_page()
        self.errors: list[str] = []
        self.expected: list[str] = []
        """Parts of the text of errors that a test provokes."""
        self._watch(self.page)
        if sign_in:
            self.sign_in(token)

    def sign_in(self, token: str | None = None) -> None:
        if token is None:
            self.page.goto(self.link)
        else:
            self.page.goto(f"{self.base}/ui/signin")
            self.page.get_by_label("Token").fill(token)
            self.page.get_by_role("button", name="Sign in").click()
        self.page.get_by_text("Live", exact=True).wait_for()

    def open(self, path: str) -> Page:
        """Goes to a page by its path without /ui, and waits for its heading."""
        self.page.goto(f"{self.base}/ui{path}")
        self.page.locator("main h1").wait_for()
        return self.page

    def wait_for_text(self, text: str) -> None:
        self.page.locator("main").get_by_text(text).first.wait_for()

    def set_theme(self, theme: Theme) -> None:
        self.page.emulate_media(color_scheme=theme)
        self.page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)

    def screenshots(self, name: str) -> None:
        """NAME-light.png and NAME-dark.png, of the whole page."""
        SCREENSHOTS.mkdir(exist_ok=True)
        for theme in ("light", "dark"):
            self.set_theme(theme)
            self.page.screenshot(path=SCREENSHOTS / f"{name}-{theme}.png", full_page=True)

    def accessibility_faults(self) -> list[str]:
        """Serious and critical faults that axe-core finds in the page, each with the elements."""
        self.page.evaluate(AXE.read_text(encoding="utf-8") + "; undefined")
        found: Any = self.page.evaluate(
            "axe.run(document, {resultTypes: ['violations']}).then(found => JSON.stringify(found.violations))"
        )
        return [
            f"{fault['id']}: {fault['help']}: {[node['html'][:200] for node in fault['nodes'][:3]]}"
            for fault in json.loads(found)
            if fault["impact"] in {"serious", "critical"}
        ]

    def close(self) -> None:
        self._context.close()
        unexpected = [error for error in self.errors if not any(part in error for part in self.expected)]
        assert not unexpected, unexpected

    def _watch(self, page: Page) -> None:
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.errors.append(f"exception: {error}"))
        page.on("response", self._on_response)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.errors.append(f"{message.type}: {message.text}")

    def _on_response(self, response: Response) -> None:
        if not response.url.startswith((self.base, "data:", "blob:")):
            self.errors.append(f"request to another host: {response.url}")
