"""`tgpu whoami`: who the server takes the caller for, and what they may do."""

from __future__ import annotations

from tgpu.cli import words
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_output, command_parser
from tgpu.cli.exits import OK
from tgpu.cli.screen import clean
from tgpu.client import Client

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

_BY = {"socket": "by this machine's word", "token": "by a token", "session": "by a browser's session"}
NO_HOME = "does not exist: an operator adds it (tgpu tenants add {}), or corrects the setting tenant_rules"


def parser() -> Parser:
    made = command_parser("whoami", "Who the server takes you for, your tenant, and your roles.")
    add_output(made, quiet="print only your name")
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    with Client() as client:
        me = client.whoami()
    show(Answer(me, lambda screen: _people(screen, me), [me["user_id"]]), args)
    return OK


def _people(screen: Screen, me: dict[str, Any]) -> Iterator[str]:
    via = str(me.get("via"))
    by = f"by the key of {via}" if via.startswith("job ") else _BY.get(via, "")
    yield f"{screen.paint(clean(me['user_id']), 'bold')}  {by}".rstrip()
    for label, value in _facts(me):
        if value:
            yield f"  {screen.paint(f'{label:<11}', 'dim')} {clean(value)}"


def _facts(me: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "everywhere", str(me.get("role") or "")
    yield "tenant", _home(me)
    yield "roles", ", ".join(_roles(me))
    token = me.get("token") or {}
    yield "token", ", ".join(token_scope(token)) if token else ""
    yield "expires", words.local_time(token["expires_at"]) if token.get("expires_at") else ""


def _roles(me: dict[str, Any]) -> Iterator[str]:
    given = [f"{one['role']} in {one['tenant_id']}" for one in me.get("memberships") or []]
    yield from given
    by_rule = f"{me.get('home_role')} in {me.get('home_tenant_id')}"
    is_more = me.get("role") in {None, "viewer"}  # else they have it everywhere
    if is_more and me.get("home_role") and me.get("home_exists") is not False and by_rule not in given:
        yield f"{by_rule}, by a rule"


def _home(me: dict[str, Any]) -> str:
    home = str(me.get("home_tenant_id") or "")
    return f"{home}, which {NO_HOME.format(home)}" if home and me.get("home_exists") is False else home


def token_scope(token: dict[str, Any]) -> Iterator[str]:
    """What it is narrowed down to, in a few words."""
    yield str(token.get("role") or "")
    if token.get("tenant_id"):
        yield f"in {token['tenant_id']}"
    if token.get("actions"):
        yield f"only {' '.join(token['actions'])}"
    if token.get("highest_class"):
        yield f"up to {token['highest_class']}"
    if token.get("jobs_left") is not None:
        yield f"{words.plural(token['jobs_left'], 'job')} left"
    if token.get("gpu_hours_left") is not None:
        yield f"{words.gpu_hours(words.number(token['gpu_hours_left']))} left"
