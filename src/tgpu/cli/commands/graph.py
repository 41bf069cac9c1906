"""`tgpu graph`: which jobs wait for which."""

from __future__ import annotations

from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_output, command_parser
from tgpu.cli.exits import NOT_FOUND, OK, CommandError
from tgpu.cli.job_graph import JobGraph
from tgpu.cli.screen import note
from tgpu.cli.selectors import resolve
from tgpu.client import Client

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tgpu.cli.screen import Screen


def parser() -> Parser:
    made = command_parser("graph", "Which jobs wait for which: below each job are those that start after it.")
    made.add_argument(
        "jobs", nargs="*", metavar="JOBS", help="around these: 42, 42-45, last (default: yours that are live)"
    )
    made.add_argument(
        "--dot", action="store_true", help="in Graphviz's language: tgpu graph --dot | dot -Tsvg"
    )
    add_output(made)
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    with Client() as client:
        answer = client.graph(resolve(client, args.jobs) if args.jobs else ())
    if args.jobs and not answer["jobs"]:
        raise CommandError("there is no such job; `tgpu list --all` shows those there are", NOT_FOUND)
    drawn = JobGraph(answer)

    def people(screen: Screen) -> Iterator[str]:
        yield from drawn.dot() if args.dot else drawn.tree(screen)

    show(Answer(answer, people), args)
    if not answer["jobs"] and not args.json:
        note("none of your live jobs waits for another")
    if answer["cut"]:
        note("there are more jobs than are shown: name some of them")
    return OK
