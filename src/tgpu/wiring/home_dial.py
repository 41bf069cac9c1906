"""Whom the agent of a home calls: the server of its home, and if that does not lead, whoever does."""

from collections.abc import Callable
from pathlib import Path
from random import Random

from tgpu.agent.channel import Listener
from tgpu.observe.logs import logger
from tgpu.wiring.dialing import TcpDial
from tgpu.wiring.other_servers import OtherServers
from tgpu.wiring.proof_check import Credential
from tgpu.wiring.server_link import ServerLink, UnixDial

_log = logger("dial")


class HomeDial:
    """Calls, and is the agent's guide. At home it is known by its socket; elsewhere by its key, which the
    server of its home has vouched for."""

    def __init__(
        self,
        socket: Path,
        others: Callable[[], OtherServers],
        random: Random,
        credential: Credential | None = None,
    ) -> None:
        self._near = UnixDial(socket)
        self._credential = credential
        self._others, self._random = others, random
        self._far: TcpDial | None = None
        self._known = OtherServers()
        self._goes_far = False
        self._was_far = False
        self._waits = False

    async def __call__(self, listener: Listener) -> ServerLink:
        far = self._others_now() if self._goes_far else None
        if far is None:
            try:
                link = await self._near(listener)
            except OSError:
                far = self._others_now()
                if far is None:
                    self._say_that_it_waits()
                    raise
            else:
                self._was_far = False
                return link
        self._goes_far, self._was_far = False, True  # if that fails, home is asked first
        return await far(listener)

    def _others_now(self) -> TcpDial | None:
        """Read anew: servers come and go while the agent is content at home."""
        others = self._others()
        if others != self._known:
            self._known = others
            self._far = (
                TcpDial(others.urls, others.ca_pem, self._random, credential=self._credential)
                if others.urls
                else None
            )
        return self._far

    def _say_that_it_waits(self) -> None:
        """Once: whoever starts an agent alone may have forgotten to say which cluster."""
        if not self._waits:
            self._waits = True
            _log.warning(
                "waiting for the server of this home: start it with `tgpu server`, or join a cluster with "
                "`tgpu agent --server URL --join @FILE`",
                socket=str(self._near.path),
            )

    @property
    def called(self) -> str:
        """Whom it called last."""
        return self._far.called if self._was_far and self._far is not None else f"unix://{self._near.path}"

    # The guide

    def welcomed(self, servers: tuple[str, ...]) -> None:
        self._waits = False
        self._goes_far = self._was_far  # a stream that breaks is opened again where it was
        if self._was_far and self._far is not None:
            self._far.welcomed(servers)

    def sent_on(self, leader: str | None, servers: tuple[str, ...]) -> bool:
        far = self._others_now()
        self._goes_far = far is not None
        return False if far is None else far.sent_on(leader, servers)

    def silent(self) -> None:
        if self._was_far and self._far is not None:
            self._far.silent()
        self._goes_far = not self._was_far
