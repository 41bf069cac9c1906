"""Files of the dashboard: served to any browser, with strict headers, and without touching the API."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.api.conftest import ServerUnderTest, serving
from tgpu.api.auth.browser_access import BrowserAccess

NAME = "tgpu-test.localhost"
HTML = {"Accept": "text/html,application/xhtml+xml"}
SCRIPT = b"console.log('dashboard')\n" * 50


def build(folder: Path, index: bytes = b"<!doctype html><title>tgpu</title>") -> None:
    (folder / "assets").mkdir(parents=True, exist_ok=True)
    (folder / "assets" / "main-4f2a.js").write_bytes(SCRIPT)
    (folder / "assets" / "main-4f2a.js.gz").write_bytes(gzip.compress(SCRIPT))
    (folder / "favicon.svg").write_bytes(b"<svg/>")
    (folder / "index.html").write_bytes(index)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("dashboard")
    (made.parent / "outside.txt").write_text("secret")
    build(made)
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerUnderTest]:
    with serving(None, {"dashboard": folder, "browser": BrowserAccess(f"http://{NAME}")}) as running:
        yield running


@pytest.fixture(scope="module")
def browser(server: ServerUnderTest) -> Iterator[httpx.Client]:
    with server.tcp() as client:
        client.headers["Host"] = f"{NAME}:{server.port}"
        yield client


def test_hashed_assets_are_cached_forever_and_sent_compressed(browser: httpx.Client) -> None:
    answer = browser.get("/ui/assets/main-4f2a.js", headers={"Accept-Encoding": "br, gzip"})
    assert (answer.status_code, answer.content) == (200, SCRIPT)
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["vary"] == "accept-encoding"
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    plain = browser.get("/ui/assets/main-4f2a.js", headers={"Accept-Encoding": "gzip;q=0"})
    assert "content-encoding" not in plain.headers
    assert plain.headers["etag"] != answer.headers["etag"]
    seen = {"If-None-Match": answer.headers["etag"], "Accept-Encoding": "gzip"}
    assert browser.get("/ui/assets/main-4f2a.js", headers=seen).status_code == 304
    assert browser.head("/ui/assets/main-4f2a.js").content == b""


def test_pages_of_the_dashboard_are_its_index(browser: httpx.Client) -> None:
    for path in ("/ui/", "/ui/jobs", "/ui/jobs/42", "/ui/nodes/n1?tab=use", "/ui//x"):
        answer = browser.get(path)
        assert answer.status_code == 200, path
        assert answer.content.startswith(b"<!doctype html>")
        assert answer.headers["cache-control"] == "no-store"
    assert browser.get("/ui/favicon.svg").headers["content-type"] == "image/svg+xml"
    assert browser.get("/ui/favicon.svg").headers["cache-control"] == "no-cache"


def test_missing_assets_are_not_replaced_by_the_index(browser: httpx.Client) -> None:
    assert browser.get("/ui/assets/gone-1234.js").status_code == 404


@pytest.mark.parametrize("path", ["/ui/", "/ui/assets/main-4f2a.js", "/ui/assets/none.js"])
def test_every_answer_has_the_security_headers(browser: httpx.Client, path: str) -> None:
    headers = browser.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert "camera=()" in headers["permissions-policy"]


@pytest.mark.parametrize(
    "path",
    ["/ui/../outside.txt", "/ui/%2e%2e/outside.txt", "/ui/..%2foutside.txt", "/ui/assets/../../outside.txt"],
)
def test_no_path_leads_out_of_the_folder(server: ServerUnderTest, path: str) -> None:
    import http.client  # noqa: PLC0415  it sends paths as they are

    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", path, headers={"Host": f"{NAME}:{server.port}"})
    assert b"secret" not in connection.getresponse().read()
    connection.close()


def test_browsers_at_the_root_are_redirected_and_programs_are_not(
    server: ServerUnderTest, browser: httpx.Client
) -> None:
    answer = browser.get("/", headers=HTML)
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/")
    assert browser.get("/ui").headers["location"] == "/ui/"
    assert browser.get("/").status_code == 401
    with server.unix() as program:
        assert program.get("/").json()["name"] == "tgpu"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_plain_ports_redirect_browsers_to_the_host_name_of_the_process(
    server: ServerUnderTest, host: str
) -> None:
    with server.tcp() as client:
        client.headers["Host"] = f"{host}:{server.port}"
        own = f"http://{NAME}:{server.port}"
        assert client.get("/", headers=HTML).headers["location"] == f"{own}/ui/"
        assert client.get("/ui/jobs?user=a%20b").headers["location"] == f"{own}/ui/jobs?user=a%20b"


def test_page_of_an_earlier_process_is_redirected_when_it_is_loaded_again(server: ServerUnderTest) -> None:
    with server.tcp() as client:
        client.headers["Host"] = f"tgpu-0123456789.localhost:{server.port}"
        answer = client.get("/ui/jobs?user=ann")
        assert (answer.status_code, answer.content) == (303, b"")
        assert answer.headers["location"] == f"http://{NAME}:{server.port}/ui/jobs?user=ann"
        assert client.get("/whoami").status_code == 421


def test_foreign_host_names_are_refused(server: ServerUnderTest) -> None:
    with server.tcp() as client:
        assert client.get("/ui/", headers={"Host": "evil.example"}).status_code == 421


def test_files_accept_no_writes(browser: httpx.Client) -> None:
    assert browser.post("/ui/").status_code == 405
    assert browser.delete("/ui/assets/main-4f2a.js").status_code == 405


def test_dashboard_that_is_built_later_appears_without_a_restart(tmp_path: Path) -> None:
    known = {"dashboard": tmp_path / "later", "browser": BrowserAccess(f"http://{NAME}")}
    with serving(None, known) as server, server.tcp() as client:
        client.headers["Host"] = NAME
        missing = client.get("/ui/")
        assert missing.status_code == 503
        assert "make web" in missing.text
        assert "content-security-policy" in missing.headers
        build(tmp_path / "later", b"<!doctype html>first")
        assert client.get("/ui/").text.endswith("first")
        (tmp_path / "later" / "index.html").unlink()
        build(tmp_path / "later", b"<!doctype html>second")
        assert client.get("/ui/").text.endswith("second")
