"""`tgpu promote`: from the file in the home to a PostgreSQL database."""

from __future__ import annotations

from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_output, command_parser
from tgpu.cli.exits import NOT_PERMITTED, OK, REFUSED, UNREACHABLE, CommandError
from tgpu.cli.node_flags import settings
from tgpu.cli.screen import note
from tgpu.cli.secret_flags import StoreFlag

_MORE = """\
Everything is copied in one transaction and compared; if anything differs, nothing has happened. The file is
kept, and marked, so that no server works on it by mistake. Jobs run on meanwhile, and are found again.
"""


def parser() -> Parser:
    made = command_parser(
        "promote", "Move this installation's facts to PostgreSQL, for several servers.", _MORE
    )
    made.add_argument(
        "--to",
        type=StoreFlag("--to"),
        required=True,
        metavar="URL|@FILE",
        help="an empty database: postgresql://USER@HOST/NAME, or a file (mode 600) with the URL and "
        "its password",
    )
    made.add_argument(
        "--stop", action="store_true", help="stop the server first, and start it on the new store afterwards"
    )
    add_output(made)
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    chosen = settings(args)
    # `--help` needs none of these.
    from tgpu.config.settings import SettingsError  # noqa: PLC0415
    from tgpu.config.url_password import MASK, has_password, masked  # noqa: PLC0415
    from tgpu.store.port import StoreUnavailableError, StoreUnusableError  # noqa: PLC0415
    from tgpu.store.promotion import AlreadyMovedError, PromotionError, UnconfirmedError  # noqa: PLC0415
    from tgpu.wiring.processes import StartError, StopError  # noqa: PLC0415
    from tgpu.wiring.promoting import promote_here  # noqa: PLC0415

    line = f'store = "{masked(args.to).replace(MASK, "PASSWORD")}"'
    where = chosen.home / "tgpu.toml"
    needed = [
        f"Every server needs this line in its settings ({where}, or /etc/tgpu/tgpu.toml):",
        f"  {line}",
    ]
    if has_password(args.to):
        needed.append(
            "With a password in it, servers start only if no other user can read that file: chmod 600."
        )
    try:
        promoted, started = promote_here(chosen, args.to, stop=args.stop, say=note)
    except AlreadyMovedError as error:
        said = [f"Nothing was done: {error}.", *([] if chosen.store else needed)]
        show(Answer({"already_moved": True, "setting": line}, lambda _: said), args)
        return OK
    except (PromotionError, SettingsError, StoreUnusableError) as error:
        raise CommandError(str(error), REFUSED) from None
    except UnconfirmedError as error:
        raise CommandError(str(error), UNREACHABLE) from None
    except StoreUnavailableError as error:
        text = f"{error}; nothing was moved, and this installation goes on as before"
        raise CommandError(text, UNREACHABLE) from None
    except StopError as error:
        raise CommandError(str(error), NOT_PERMITTED) from None
    except StartError as error:
        raise CommandError(f"the server did not start: {error}") from None
    data = {
        "cluster_id": promoted.cluster_id,
        "to": promoted.to,
        "epoch": promoted.epoch,
        "rows": promoted.rows,
        "server_started": started,
        "already_moved": False,
        "setting": line,
    }
    lines = [
        f"Moved to {promoted.to}: {promoted.rows['jobs']} jobs, {promoted.rows['events']} events; compared.",
        "The server runs on it." if started else "No server runs now.",
        *needed,
    ]
    show(Answer(data, lambda _: lines), args)
    return OK
