"""`tgpu token`: makes, lists and revokes tokens, for access over TCP and for programs."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from tgpu.cli import words
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_action, add_actions, add_output, command_parser, with_action
from tgpu.cli.commands.users import ROLES
from tgpu.cli.commands.whoami import token_scope
from tgpu.cli.exits import NOT_FOUND, OK, CommandError, UsageError
from tgpu.cli.fields import CLASSES
from tgpu.cli.moments import lifetime_s
from tgpu.cli.refusals import in_flags
from tgpu.cli.screen import note
from tgpu.cli.table import Column, table
from tgpu.cli.tenant_flags import decimal, tenant_id, whole
from tgpu.client import Client, TgpuError
from tgpu.domain.quantities import MAX_GENERIC, MILLI

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

_NO_SUCH = 404
_ACTIONS = ("read", "logs", "submit", "cancel", "enter", "manage")
_FLAGS = {
    "user_id": "--for",
    "role": "--role",
    "tenant_id": "--tenant",
    "actions": "--actions",
    "highest_class": "--max-class",
    "jobs": "--jobs",
    "gpu_hours": "--gpu-hours",
    "expires_in_s": "--expires",
    "note": "--note",
}
"""By the API's field: so that a refusal speaks of what was typed."""
_COLUMNS = (
    Column("ID"),
    Column("USER", floor=5),
    Column("CREATED", rank=1),
    Column("EXPIRES"),
    Column("MAY", floor=8),
    Column("NOTE", floor=8),
)
_EXAMPLES = """\
examples:
  tgpu token create --expires 90d --note notebook
  tgpu token create --tenant lab/ci --actions read,submit --max-class low --jobs 500 --note ci
  tgpu token revoke 3
A token never allows more than its user may do at that moment; what is said here only narrows that.
"""


def parser() -> Parser:
    made = command_parser(
        "token",
        "Tokens for access over TCP, and for programs; on this machine the socket needs none.",
        _EXAMPLES,
    )
    actions = add_actions(made)
    create = add_action(actions, "create", "make one; it is shown this once")
    create.add_argument(
        "--for", "--user", dest="user", metavar="USER", help="(default: yourself; others: administrators)"
    )
    create.add_argument("--role", choices=ROLES, help="(default: user)")
    create.add_argument("--tenant", metavar="TENANT", type=tenant_id, help="good only there, and below it")
    create.add_argument("--actions", metavar="A,…", help=f"good only for some of {','.join(_ACTIONS)}")
    create.add_argument("--max-class", metavar="CLASS", choices=CLASSES, help="the highest class of its jobs")
    create.add_argument("--jobs", metavar="N", help="how many jobs may be submitted with it, in all")
    create.add_argument(
        "--gpu-hours", metavar="N", help="what its jobs may use in all; each must have a time limit"
    )
    create.add_argument("--expires", metavar="DURATION", help="such as 90d (default: 30d)")
    create.add_argument("--note", help="what it is for")
    add_output(create, quiet="print only the token")
    add_output(add_action(actions, "list", "those that exist (needs not be named)"), quiet="print only ids")
    revoke = add_action(actions, "revoke", "make one useless, at once")
    revoke.add_argument("token_id", metavar="ID")
    add_output(revoke)
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(with_action(argv, "list"))
    with Client() as client:
        answer = {"create": _create, "list": _list, "revoke": _revoke}[args.action](client, args)
    show(answer, args)
    return OK


def _create(client: Client, args: Namespace) -> Answer:
    asked = {name: value for name, value in _asked(args).items() if value is not None}
    with in_flags(_FLAGS):
        made = client.create_token(**asked)

    def people(screen: Screen) -> Iterator[str]:
        note(_made(made))
        yield made["token"]
        if screen.is_terminal:
            yield screen.paint(
                "shown this once; use it as TGPU_TOKEN or in a file `token` (mode 600) in TGPU_HOME", "dim"
            )

    return Answer(made, people, [made["token"]])


def _made(token: dict[str, Any]) -> str:
    """Beside the token itself, which a script takes from stdout."""
    ends = f", expires {words.local_time(token['expires_at'])}" if token.get("expires_at") else ""
    why = f", with token {token.get('parent_token_id')} that it was made with"
    return f"token {token['token_id']}{ends}{why if token.get('ends_with_parent') else ''}"


def _asked(args: Namespace) -> dict[str, Any]:
    hours = args.gpu_hours
    return {
        "user_id": args.user,
        "role": args.role,
        "tenant_id": args.tenant,
        "actions": None if args.actions is None else _actions(args.actions),
        "highest_class": args.max_class,
        "jobs": None if args.jobs is None else whole("--jobs", args.jobs, MAX_GENERIC),
        "gpu_hours": None if hours is None else decimal("--gpu-hours", hours, MAX_GENERIC * MILLI),
        "expires_in_s": None if args.expires is None else lifetime_s("--expires", args.expires),
        "note": args.note,
    }


def _actions(text: str) -> list[str]:
    named = text.split(",")
    for name in named:
        if name not in _ACTIONS:
            raise UsageError(f"--actions must be some of {','.join(_ACTIONS)}; got {name!r}")
    return named


def _list(client: Client, _args: Namespace) -> Answer:
    tokens = client.tokens()

    def people(screen: Screen) -> Iterator[str]:
        if not tokens:
            yield "no tokens"
            return
        yield from table(screen, _COLUMNS, [_row(token) for token in tokens])
        if not all(map(_has_account, tokens)):
            yield (
                "no account: refused until there is an account of that name again; "
                "`tgpu token revoke` ends them for good"
            )

    return Answer(tokens, people, [token["token_id"] for token in tokens])


def _revoke(client: Client, args: Namespace) -> Answer:
    number = args.token_id
    if not (number.isascii() and number.isdigit()):
        # What was typed may be the token itself: a secret is not repeated.
        raise UsageError("which one? its number, as `tgpu token list` shows it, such as 3")
    known: dict[str, dict[str, Any]] = {}
    with suppress(TgpuError):  # one that may revoke and not look
        known = {str(token["token_id"]): token for token in client.tokens()}
    was_revoked = known.get(number, {}).get("revoked")
    try:
        answer = client.revoke_token(number) or {"token_id": number}
    except TgpuError as error:
        if error.status != _NO_SUCH:
            raise
        text = f"there is no token {number} that you may revoke; `tgpu token list` shows those there are"
        raise CommandError(text, NOT_FOUND) from None
    said = "was revoked already" if was_revoked else f"is revoked{_with_it(int(number), known.values())}"
    return Answer(answer, lambda _: [f"Token {number} {said}"])


def _with_it(token_id: int, tokens: Iterable[dict[str, Any]]) -> str:
    """How many go with it: those that were made with it, with those, and so on."""
    made_with: dict[int, list[int]] = {}
    for token in tokens:
        if token.get("parent_token_id") is not None and not token.get("revoked"):
            made_with.setdefault(token["parent_token_id"], []).append(token["token_id"])
    family = [token_id]
    for each in family:
        family.extend(made_with.get(each, ()))
    others = len(family) - 1
    made = "that was made" if others == 1 else "that were made"
    return f", and {words.plural(others, 'token')} {made} with it" if others else ""


def _has_account(token: dict[str, Any]) -> bool:
    return bool(token.get("revoked") or token.get("has_account", True))


def _row(token: dict[str, Any]) -> list[str]:
    return [
        str(token["token_id"]),
        str(token.get("user_id") or "") + ("" if _has_account(token) else " (no account)"),
        words.local_time(token.get("created_at")),
        _expiry(token),
        ", ".join(part for part in (*token_scope(token), _maker(token)) if part),
        str(token.get("note") or ""),
    ]


def _expiry(token: dict[str, Any]) -> str:
    if token.get("revoked"):
        return "revoked"
    if not token.get("expires_at"):
        return "never"
    ended = (words.timestamp(token["expires_at"]) or 0) <= time.time()
    return words.local_time(token["expires_at"]) + (" (expired)" if ended else "")


def _maker(token: dict[str, Any]) -> str:
    parent = token.get("parent_token_id")
    return "" if parent is None else f"by token {parent}"
