"""Questions between servers: the leader answers what only its picture or its agents know."""

import asyncio
import hmac
import inspect
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tgpu.observe.logs import logger, trace_of
from tgpu.protocol import door
from tgpu.protocol.framing import MAX_FRAME, from_asking_servers, from_leader
from tgpu.protocol.messages import PROTOCOL
from tgpu.protocol.peers import METHODS, Answer, FromPeer, Introduction, Question, ToPeer
from tgpu.protocol.server_proof import SERVER_NAME, Role, digest_of
from tgpu.wiring.addresses import reach
from tgpu.wiring.connection_limits import Visit
from tgpu.wiring.framed import Framed
from tgpu.wiring.proof_check import Credential, UnknownHereError, UnprovenError, prove

DIAL_S = 3.0
INTRODUCTION_S = 10.0
"""From the connection to the introduction."""
LONGEST_INTRODUCTION = 4 * 1024
_log = logger("peers")
_encode = msgspec.msgpack.Encoder().encode
_arguments = {name: msgspec.msgpack.Decoder(method.arguments) for name, method in METHODS.items()}
_values = {name: msgspec.msgpack.Decoder(method.value) for name, method in METHODS.items()}


class UnansweredError(Exception):
    """The leader could not be asked, or has no answer now; the text says why."""


Desk = dict[str, Callable[..., Awaitable[Any]]]
"""Who answers which method. Each raises UnansweredError if there is no answer now."""


class AskedLink(Framed[ToPeer]):
    """The leader's end: whoever knows the cluster's secret may ask."""

    def __init__(self, desk: Desk, cluster_id: str, secret: str, visit: Visit | None = None) -> None:
        """`visit`: the connection as one of a stranger; it ends with the introduction."""
        super().__init__(from_asking_servers())
        self._reader.longest = LONGEST_INTRODUCTION
        self._desk, self._cluster_id, self._secret, self._visit = desk, cluster_id, secret, visit
        self._introduced = False
        self._patience = self._loop.call_later(INTRODUCTION_S, self._abort)
        self._answering: set[asyncio.Task[None]] = set()

    def take(self, message: ToPeer) -> None:
        match message:
            case Introduction():
                self._introduced = (
                    message.protocol == PROTOCOL
                    and message.cluster_id == self._cluster_id
                    and hmac.compare_digest(message.secret, self._secret)
                )
                if not self._introduced:
                    _log.warning("a stranger asked", protocol=message.protocol)
                    self.close()
                    return
                self._reader.longest = MAX_FRAME
                self._not_a_stranger()
            case Question() if self._introduced:
                task = self._loop.create_task(self._answer(message))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
            case _:
                self.close()

    async def _answer(self, question: Question) -> None:
        try:
            arguments = _arguments[question.method].decode(question.arguments)
            value = await self._desk[question.method](*arguments)
        except UnansweredError as error:
            self.send(Answer(number=question.number, refusal=str(error)))
        except (KeyError, msgspec.MsgspecError):
            self.send(Answer(number=question.number, refusal="the leader does not know this question yet"))
        except Exception as error:  # noqa: BLE001  the question fails, and nothing else
            _log.error("a question failed", method=question.method, trace=trace_of(error))
            why = "the leader failed to answer: see its log, and report a bug"
            self.send(Answer(number=question.number, refusal=why))
        else:
            self.send(Answer(number=question.number, value=_encode(value)))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._not_a_stranger()
        for task in self._answering:
            task.cancel()

    def _not_a_stranger(self) -> None:
        self._patience.cancel()
        if self._visit is not None:
            self._visit.leave()

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class _AskingLink(Framed[FromPeer]):
    """The other end: answers find their questions by number."""

    def __init__(self) -> None:
        super().__init__(from_leader())
        self._open: dict[int, asyncio.Future[Answer]] = {}
        self._last = 0

    def take(self, message: FromPeer) -> None:
        waiting = self._open.pop(message.number, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for waiting in self._open.values():
            if not waiting.done():
                waiting.set_exception(UnansweredError("the leader is gone: try again shortly"))
        self._open.clear()

    def introduce(self, introduction: Introduction) -> None:
        assert self._transport is not None
        self._transport.write(door.PEER)
        self.send(introduction)

    async def ask(self, method: str, arguments: tuple[object, ...]) -> Answer:
        self._last += 1
        number = self._last
        waiting: asyncio.Future[Answer] = self._loop.create_future()
        self._open[number] = waiting
        self.send(Question(number=number, method=method, arguments=_encode(arguments)))
        try:
            return await waiting
        finally:
            self._open.pop(number, None)

    @property
    def is_open(self) -> bool:
        return self._transport is not None


class Asking:
    """Holds one stream to whoever leads, made when the first question needs it."""

    def __init__(
        self,
        *,
        leader: Callable[[], str | None],
        cluster_id: str,
        secret: str,
        tls: Callable[[], ssl.SSLContext | None],
    ) -> None:
        self._leader = leader
        self._introduction = Introduction(protocol=PROTOCOL, cluster_id=cluster_id, secret=secret)
        self._tls = tls
        self._credential = Credential(Role.PEER, cluster_id, digest_of(secret))
        self._link: _AskingLink | None = None
        self._to: str | None = None
        self._dialling = asyncio.Lock()

    async def ask(self, method: str, *arguments: object, patience_s: float = 10.0) -> Any:  # noqa: ANN401  as METHODS says
        """Raises UnansweredError, also if the stream could not be made within the time."""
        try:
            async with asyncio.timeout(patience_s):
                answer = await (await self._connected()).ask(method, arguments)
        except TimeoutError:
            raise UnansweredError("the leader did not answer: try again shortly") from None
        if answer.refusal:
            raise UnansweredError(answer.refusal)
        try:
            return _values[method].decode(answer.value)
        except msgspec.MsgspecError as error:
            raise UnansweredError("the leader answers in another version: update all servers") from error

    def close(self) -> None:
        if self._link is not None:
            self._link.close()

    async def _connected(self) -> _AskingLink:
        async with self._dialling:
            leader = self._leader()
            if leader is None:
                raise UnansweredError(
                    "no server leads yet, and a new one is being chosen: try again in some seconds"
                )
            if self._link is None or not self._link.is_open or self._to != leader:
                self.close()
                self._link, self._to = await self._dial(leader), leader
            return self._link

    async def _dial(self, url: str) -> _AskingLink:
        parts = urlsplit(url)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(DIAL_S):
                sock = await reach(parts.hostname or "", parts.port or 0)
                try:
                    context, name = await self._trusted(sock, url)
                    _, link = await loop.create_connection(
                        _AskingLink, sock=sock, ssl=context, server_hostname=name
                    )
                except BaseException:
                    sock.close()
                    raise
        except (UnprovenError, UnknownHereError) as error:
            _log.warning("the leader did not prove itself", server=url, why=str(error))
            raise UnansweredError(str(error)) from error
        except OSError as error:  # a timeout is one, too
            raise UnansweredError(f"the leader at {url} cannot be reached: try again shortly") from error
        link.introduce(self._introduction)
        return link

    async def _trusted(self, sock: socket.socket, url: str) -> tuple[ssl.SSLContext, str]:
        """What to speak TLS with, and to whom: the cluster's secret is sent to no other process."""
        parts = urlsplit(url)
        if parts.scheme != "https":
            return await prove(sock, url, self._credential), SERVER_NAME
        context = self._tls()
        if context is None:
            raise UnprovenError(f"{url} speaks TLS and this server does not: give both the same `tls`")
        return context, parts.hostname or ""


def desk_of(live: object) -> Desk:
    """Every method of the table, by the object's own."""
    desk = {name: getattr(live, name) for name in METHODS}
    assert all(inspect.iscoroutinefunction(method) for method in desk.values())
    return desk
