"""`$(NAME)` in commands, arguments and variables: replaced as Kubernetes does it, before anything runs."""

import re
from collections.abc import Collection, Mapping

from tgpu.dialects.kubernetes.problems import refused

_REFERENCE = re.compile(r"\$(?:(?P<dollar>\$)|\((?P<name>[^)]*)\))")


def replaced(path: str, text: str, known: Mapping[str, str], later: Collection[str]) -> str:
    """`$$` is a dollar. A name that nobody gave a value stays as it is written, since `$(date)` may be meant
    for a shell. `later` are those whose values are found only when the job runs."""

    def value(found: re.Match[str]) -> str:
        name = found["name"]
        if found["dollar"]:
            return "$"
        if name in later:
            raise refused(
                path,
                f"has $({name}), whose value is known only when it runs: let a shell read it, as ${name}",
            )
        return known.get(name, found[0])

    return _REFERENCE.sub(value, text)
