"""Unpacks a snapshot into a folder of the task's user, as that user: a program of its own, started by root.

An archive is whatever its user made it. Nothing of it may land outside of the folder: names that lead out,
links that point out, and whatever is neither a file, a folder nor a link within are refused; and since this
process is by then the user's own, the worst of them could only have done what the user can do anyway.
"""

import os
import sys
import tarfile

from tgpu.runner.task import Account, Refusal

_REFUSED = 3


class RefusedError(Exception):
    """The archive is not one that tgpu makes."""


def main(user: str, place: str, most_bytes: int, most_files: int) -> None:
    """Into the current folder; the archive is on stdin. `place`: where the task will stand in it."""
    account = Account(user)
    if os.getuid() != account.uid:
        account.assume()
    os.umask(0o022)
    here, left, files = os.getcwd(), most_bytes, 0  # noqa: PTH109  as tarfile wants it
    if not os.access(here, os.W_OK | os.X_OK):
        raise RefusedError(
            f"{user} may not pass to {here}: an administrator should start tgpu with a TGPU_HOME that all "
            "may pass, such as /var/lib/tgpu"
        )
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r|gz") as archive:
        for member in archive:
            left -= member.size
            files += 1
            if left < 0:
                raise RefusedError(f"it has more than {most_bytes >> 20} MiB of files (snapshot_max_mb)")
            if files > most_files:
                raise RefusedError(f"it has more than {most_files} files")
            archive.extract(member, here, set_attrs=not member.issym(), filter="data")
    os.makedirs(place, exist_ok=True)  # noqa: PTH103  Git keeps no empty folders


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    except (RefusedError, Refusal, tarfile.TarError, OSError, EOFError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(_REFUSED)
