"""The page about tenants: the calls that it shows are made, and do what it says."""

import re
import shlex
from pathlib import Path

from tests.api.conftest import serving

PAGE = Path(__file__).parent.parent.parent / "docs" / "tenants.md"


def calls() -> list[tuple[str, str, str]]:
    """(method, path, body) of every `$ api …`."""
    found = []
    for line in re.findall(r"^\$ api (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        words = shlex.split(line)
        method = words[words.index("-X") + 1] if "-X" in words else "GET"
        body = words[words.index("-d") + 1] if "-d" in words else ""
        (url,) = [word for word in words if word.startswith("http://localhost")]
        found.append((method, url.removeprefix("http://localhost"), body))
    return found


def test_the_calls_on_the_page_work() -> None:
    with serving() as server, server.unix() as client:
        for method, path, body in calls():
            answer = client.request(method, path, content=body)
            assert answer.is_success, f"{method} {path}: {answer.text}"
        lab, vision = (client.get(f"/tenants/{name}").json() for name in ("lab", "lab/vision"))
    assert (lab["weight"], lab["quota"]["gpu_limit"]) == (2, 6)
    assert (vision["weight"], vision["quota"]["gpu_limit"], vision["quota"]["mem_limit_mb"]) == (
        3,
        None,
        65536,
    )
