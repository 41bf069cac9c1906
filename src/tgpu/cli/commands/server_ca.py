"""`tgpu server-ca`: the certificate by which clients on other machines know the cluster's servers."""

from __future__ import annotations

from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_output, command_parser
from tgpu.cli.exits import OK
from tgpu.client import Client

_MORE = """\
For a client on another machine, put it there into TGPU_HOME/ca.pem, or into a file that TGPU_CA names:
  tgpu server-ca > ca.pem
"""


def parser() -> Parser:
    made = command_parser(
        "server-ca", "The certificate by which the cluster's servers are known (PEM).", _MORE
    )
    add_output(made)
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    with Client() as client:
        pem = client.authority()
    show(Answer({"ca_pem": pem}, lambda _: pem.splitlines()), args)
    return OK
