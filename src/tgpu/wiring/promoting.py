"""`tgpu promote`: this installation's facts into PostgreSQL, with its server stopped meanwhile."""

import os
from collections.abc import Callable

from tgpu.config.secret_file import said_url, store_url
from tgpu.config.settings import Settings
from tgpu.config.url_password import is_masked
from tgpu.store.promotion import AlreadyMovedError, Promoted, PromotionError, check, promote
from tgpu.wiring import last_flags, pidfile, processes


def promote_here(
    settings: Settings, to: str, *, stop: bool, say: Callable[[str], None]
) -> tuple[Promoted, bool]:
    """What was moved, and whether a server runs on it now. `to` is a URL, or `@FILE` with one.

    With `stop` the server is stopped first and started on the new store afterwards, or on the file again if
    nothing was moved; jobs run on all the while. Raises what `promote` raises, SettingsError, StartError and
    StopError."""
    url = said_url(to, "--to")
    if settings.store and store_url(settings) == url:
        raise AlreadyMovedError("this installation keeps its facts there already: nothing is left to do")
    if settings.store:
        raise PromotionError("this installation keeps its facts in a database already: `store` says which")
    check(settings.database, url)  # while jobs are still served
    running = processes.running(settings).get("server")
    if running is None:
        return promote(settings.database, url), False
    if not stop:
        raise PromotionError(
            f"the server runs (pid {running}): stop it first, or say --stop, which also starts it again"
        )
    above = pidfile.holder(settings.run_dir / "up.pid")
    if above is not None:
        raise PromotionError(
            f"`tgpu up` (pid {above}) would start the server on the file again: stop that first with `tgpu"
            " down` or systemctl, promote, then start it with the new store"
        )
    say("stopping the server; running jobs run on")
    if not processes.stop({"server": running}, settings):
        raise processes.StopError(f"the server (pid {running}) does not stop: try again")
    environ = {**os.environ, **_flags(settings)}
    try:
        promoted = promote(settings.database, url)
    except BaseException:
        say("nothing was moved: starting the server on its file again")
        _start(settings, environ)
        raise
    say("starting the server on the new store")
    _start(settings, {**environ, "TGPU_STORE": to})
    return promoted, True


def _flags(settings: Settings) -> dict[str, str]:
    """Those of the `tgpu up --detach` that started the server."""
    flags = last_flags.recall(settings)
    return last_flags.as_environ({name: said for name, said in flags.items() if not is_masked(str(said))})


def _start(settings: Settings, environ: dict[str, str]) -> None:
    mark = processes.log_mark(settings, "server")
    child = processes.start("server", settings, environ, with_parent=False)
    processes.wait_answering(settings, child, mark)
