"""`sacctmgr`: shows tenants as the accounts that they are to Slurm's scripts; it changes nothing."""

from __future__ import annotations

from tgpu.cli.slurm.main import VERSION
from tgpu.client import Client
from tgpu.dialects.slurm.associations import CLUSTER, Association, associations, sheet
from tgpu.dialects.slurm.options import named
from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable

_OPTIONS = named(
    values="delimiter",
    flags=(
        "associations,s help,h immediate,i noheader,n oneliner,o parsable,p parsable2,P quiet,Q readonly,r "
        "usage verbose,v version,V"
    ),
)
_CLASSES = ("normal", "real-time", "high", "low", "best-effort")
_FORMS = {
    "account": "account,description,organization",
    "association": "cluster,account,user,partition,share,priority,qos,defaultqos",
    "cluster": "cluster,share,qos,defaultqos",
    "qos": "name,priority",
    "user": "user,defaultaccount,adminlevel",
}
"""What can be shown, and what of it unless somebody says."""


def main(argv: list[str]) -> int:
    given, words = _OPTIONS.read(argv, mixed=True)
    options = dict(given)
    if {"help", "usage"} & options.keys():
        print("Usage: sacctmgr [OPTIONS] show KIND [KEY=VALUE...]; see docs/slurm.md")
        return 0
    if "version" in options:
        print(VERSION)
        return 0
    verb, kind, *rest = [*words, "", ""]
    if verb not in ("show", "list"):
        raise SlurmError(
            f"{verb!r} cannot be had here, only show: accounts are tenants, for which there is `tgpu tenants`"
        )
    shown = _kind(kind)
    said = _conditions(shown, rest)
    whole = "associations" in options or said.get("withassoc") is not None
    usual = f"{_FORMS['user']},{_FORMS['association']}" if shown == "user" and whole else _FORMS[shown]
    rows = [one for one in _ROWS[shown]() if _is_meant(one, said)]
    if shown == "user" and not whole:
        rows = rows[:1]  # who it is, whatever may be charged
    for line in sheet(said.get("format") or usual).printed(rows, options):
        print(line)
    return 0


def _kind(word: str) -> str:
    """By its name, its plural or the beginning of it, as `assoc`."""
    name = word.lower().removesuffix("s") if word.lower() != "qos" else "qos"
    near = [kind for kind in _FORMS if len(name) > 1 and kind.startswith(name)]
    if not near:
        raise SlurmError(f"{word!r} is nothing to show here; there are {', '.join(_FORMS)}")
    return near[0]


def _conditions(kind: str, words: list[str]) -> dict[str, str]:
    """`where user=ann format=account%30`; a name alone is that of what is shown."""
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if equals:
            name = key.lower()
            found["format" if name.startswith("form") else name.removesuffix("s")] = value
        elif word.lower() in ("withassoc", "withassocs"):
            found["withassoc"] = ""
        elif word and word.lower() != "where":
            found[kind] = word
    return found


def _is_meant(one: Association, said: dict[str, str]) -> bool:
    own = {"user": one.user, "account": one.account, "qos": one.account, "cluster": CLUSTER}
    return all(value in said[name].split(",") for name, value in own.items() if said.get(name))


def _accounts() -> list[Association]:
    with Client() as client:
        return associations(client.tenants(), str(client.whoami()["user_id"]))


_ROWS: dict[str, Callable[[], list[Association]]] = {
    "account": _accounts,
    "association": _accounts,
    "cluster": lambda: [Association("root", "", {"tenant_id": "root"})],
    "qos": lambda: [Association(name, "", {"tenant_id": name}) for name in _CLASSES],
    "user": _accounts,
}
