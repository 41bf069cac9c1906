"""`sshare`: tenants and their weights; what of it was used, `tgpu report` tells."""

from __future__ import annotations

from tgpu.cli.slurm.main import VERSION
from tgpu.client import Client
from tgpu.dialects.slurm.associations import associations, sheet
from tgpu.dialects.slurm.options import named
from tgpu.dialects.slurm.refusal import SlurmError

_OPTIONS = named(
    values="accounts,A clusters,M delimiter format,o user,u",
    flags=(
        "all,a help long,l noheader,n parsable,p parsable2,P partition,m usage Users,U verbose,v version,V"
    ),
    aliases={"account": "accounts", "users": "user"},
)
_FORM = "account%20,user,rawshares,normshares,rawusage,effectvusage"


def main(argv: list[str]) -> int:
    given, rest = _OPTIONS.read(argv, mixed=True)
    options = dict(given)
    if rest:
        raise SlurmError(f"{rest[0]!r} is no option: accounts are named with -A")
    if {"help", "usage"} & options.keys():
        print("Usage: sshare [OPTIONS]; see docs/slurm.md")
        return 0
    if "version" in options:
        print(VERSION)
        return 0
    with Client() as client:
        found = associations(client.tenants(), str(client.whoami()["user_id"]))
    only = (options.get("accounts") or "").split(",")
    rows = [one for one in found if only == [""] or one.account in only]
    for line in sheet(options.get("format") or _FORM).printed(rows, options):
        print(line)
    return 0
