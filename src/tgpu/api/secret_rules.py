"""How a job names its secrets: `store:NAME`, kept by the server, or `file:/PATH`, on the node it runs on."""

import os.path
import re
from collections.abc import Mapping

from tgpu.api.problems import unprocessable

MAX_SECRET = 64 * 1024
SECRET_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"  # noqa: S105  what a name may look like
STORE, FILE = "store:", "file:"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_NAME = re.compile(SECRET_NAME)
_MOST = 64
_MAX_PATH = 4096


def checked_secret_env(secret_env: Mapping[str, str], env: Mapping[str, str]) -> None:
    """Raises ProblemError. What is wrong may be the secret itself: it is not repeated."""
    if len(secret_env) > _MOST:
        raise unprocessable("secret_env", f"secret_env may have at most {_MOST} variables")
    for variable, reference in secret_env.items():
        if not _VARIABLE.fullmatch(variable) or variable.startswith(("TGPU_", "CUDA_")):
            raise unprocessable(
                "secret_env",
                f"secret_env: {variable[:80]!r} is no name for a variable: letters, digits and _, not "
                "beginning with TGPU_ or CUDA_",
            )
        if variable in env:
            raise unprocessable("secret_env", f"secret_env: {variable} is in env, too; leave one of them out")
        if not _is_reference(reference):
            raise unprocessable(
                "secret_env",
                f"secret_env: {variable} must say where its value is: store:NAME (see `tgpu secret set`) or "
                "file:/PATH on the node; never the value itself",
            )


def _is_reference(reference: str) -> bool:
    if reference.startswith(STORE):
        return _NAME.fullmatch(reference.removeprefix(STORE)) is not None
    path = reference.removeprefix(FILE)
    return (
        reference.startswith(FILE)
        and os.path.isabs(path)  # noqa: PTH117  text, not a file here
        and len(path) < _MAX_PATH
        and path.isprintable()
    )


def names_in_store(secret_env: Mapping[str, str]) -> list[str]:
    return [reference.removeprefix(STORE) for reference in secret_env.values() if reference.startswith(STORE)]
