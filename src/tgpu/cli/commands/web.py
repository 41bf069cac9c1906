"""`tgpu web`: signs a browser in to the dashboard, by a one-time link."""

from __future__ import annotations

from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_output, command_parser
from tgpu.cli.exits import OK
from tgpu.cli.screen import note
from tgpu.client import Client

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tgpu.cli.screen import Screen

_MORE = """\
The link signs in one browser, once, within five minutes; the session may do what you may do here. `tgpu token
list` shows sessions, and `tgpu token revoke N` ends one. From another machine, over SSH:
  ssh -L 7480:127.0.0.1:7480 HOST, then open the link that `tgpu web --print` prints on HOST
"""


def parser() -> Parser:
    made = command_parser("web", "Open the dashboard in a browser, signed in.", _MORE)
    made.add_argument("--print", action="store_true", dest="only_print", help="print the link, open nothing")
    add_output(made, quiet="print only the link")
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    with Client() as client:
        link = client.create_sign_in_link()
    url = str(link["url"])

    def people(_screen: Screen) -> Iterator[str]:
        yield url
        note("The link is valid once, for five minutes.")

    show(Answer(link, people, [url]), args)
    if not (args.only_print or args.json or args.quiet):
        _open(url)
    return OK


def _open(url: str) -> None:
    from tgpu.cli import browser  # noqa: PLC0415  `--help` and `--print` need none of it

    if browser.is_available() and not browser.open_page(url):
        note("No browser could be opened: open the link yourself.")
