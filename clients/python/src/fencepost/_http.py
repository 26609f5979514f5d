"""HTTP/1.1 to one replica, as much of it as the service speaks, on asyncio's streams.

The standard library's `http.client` cannot be cancelled while it waits; a claim in line has to be.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from typing import Any, AsyncIterator, Dict, List, Optional, Tuple

from ._aside import aside, within
from ._settings import Address

ANSWER_MAX = 16 * 1024 * 1024
LINE_MAX = 64 * 1024
CONNECT_TIME = 3.0
# Well below the time after which the service closes a connection that says nothing.
IDLE_TIME = 5.0
IDLE_MAX = 8


class Broken(Exception):
    """No answer. `sent`: the request may have been heard."""

    def __init__(self, why: str, sent: bool) -> None:
        super().__init__(why)
        self.sent = sent


class _Link:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.idle_since = 0.0

    def is_usable(self) -> bool:
        is_fresh = time.monotonic() - self.idle_since < IDLE_TIME
        return is_fresh and not self.reader.at_eof() and not self.writer.transport.is_closing()

    def abort(self) -> None:
        self.writer.transport.abort()


class Answer:
    """An answer that has begun. Its link is given back when it was read to its end, and closed otherwise."""

    def __init__(self, replica: Replica, link: _Link, status: int, headers: Dict[str, str]) -> None:
        self.status, self.headers = status, headers
        # The request went out before over a link that broke: that one may have been heard, too.
        self.sent_before = False
        self._replica, self._link = replica, link

    async def pieces(self) -> AsyncIterator[bytes]:
        reader = self._link.reader
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            while True:
                size = int((await reader.readline()).split(b";")[0], 16)
                if size > ANSWER_MAX:
                    raise ValueError("a piece that is too large")
                piece = await reader.readexactly(size + 2)
                if size == 0:
                    break
                yield piece[:-2]
        elif "content-length" in self.headers:
            length = int(self.headers["content-length"])
            if length > ANSWER_MAX:
                raise ValueError("an answer that is too large")
            yield await reader.readexactly(length)
        elif self.status not in (204, 304):
            while True:
                piece = await reader.read(LINE_MAX)
                if not piece:
                    return
                yield piece
        self._replica.keep(self._link, self.headers)

    async def whole(self) -> bytes:
        parts: List[bytes] = []
        size = 0
        try:
            async for piece in self.pieces():
                size += len(piece)
                if size > ANSWER_MAX:
                    raise ValueError("an answer that is too large")
                parts.append(piece)
        except (OSError, EOFError, ValueError) as error:
            self.close()
            raise Broken(f"the answer broke off: {error}", sent=True) from None
        except BaseException:
            self.close()
            raise
        return b"".join(parts)

    def close(self) -> None:
        self._link.abort()


class Replica:
    """Connections to one address."""

    def __init__(self, address: Address, context: Optional[ssl.SSLContext]) -> None:
        self.address = address
        self._context = context if address.tls else None
        self._idle: List[_Link] = []

    def keep(self, link: _Link, headers: Dict[str, str]) -> None:
        if headers.get("connection", "").lower() == "close" or len(self._idle) >= IDLE_MAX:
            link.abort()
            return
        link.idle_since = time.monotonic()
        self._idle.append(link)

    def close(self) -> None:
        for link in self._idle:
            link.abort()
        self._idle.clear()

    async def send(self, method: str, path: str, headers: Dict[str, str], body: bytes, repeats: bool) -> Answer:
        """Begins an exchange. What must not be sent twice never goes over a link that the service may be closing."""
        link = self._idle_link() if repeats else None
        if link is None:
            return await self._exchange(await self._connect(), method, path, headers, body)
        try:
            return await self._exchange(link, method, path, headers, body)
        except Broken:
            pass
        try:
            answer = await self._exchange(await self._connect(), method, path, headers, body)
        except Broken as broken:
            raise Broken(str(broken), sent=True) from None
        answer.sent_before = True
        return answer

    def _idle_link(self) -> Optional[_Link]:
        while self._idle:
            link = self._idle.pop()
            if link.is_usable():
                return link
            link.abort()
        return None

    async def _connect(self) -> _Link:
        address = self.address
        try:
            return await within(self._open(), CONNECT_TIME, _Link.abort)
        except asyncio.TimeoutError:
            raise Broken(f"{address}: no connection within {CONNECT_TIME:g} s", sent=False) from None
        except (OSError, RuntimeError, ValueError) as error:
            # Also a name that cannot be one, and a thread that cannot be started.
            raise Broken(f"{address}: {error}", sent=False) from None

    async def _open(self) -> _Link:
        """To the first of its addresses that answers."""
        trouble: OSError = OSError("the name has no address")
        for family, to in await _resolved(self.address):
            try:
                connected = await _connected(family, to)
            except OSError as error:
                trouble = error
                continue
            try:
                name = self.address.host if self._context is not None else None
                reader, writer = await asyncio.open_connection(
                    sock=connected, ssl=self._context, server_hostname=name, limit=LINE_MAX
                )
            except BaseException:
                connected.close()
                raise
            return _Link(reader, writer)
        raise trouble

    async def _exchange(self, link: _Link, method: str, path: str, headers: Dict[str, str], body: bytes) -> Answer:
        lines = [f"{method} {path} HTTP/1.1", f"host: {self.address.authority}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body or method != "GET":
            lines.append(f"content-length: {len(body)}")
        head = "\r\n".join(lines) + "\r\n\r\n"
        try:
            link.writer.write(head.encode("ascii") + body)
            await link.writer.drain()
            status, answered = await _head(link.reader)
        except (OSError, EOFError, ValueError) as error:
            link.abort()
            raise Broken(f"{self.address}: {str(error) or 'the connection was closed'}", sent=True) from None
        except BaseException:
            # Cancelled: the service sees that we have gone, and takes the claim out of the line.
            link.abort()
            raise
        return Answer(self, link, status, answered)


async def _resolved(address: Address) -> List[Tuple[int, Any]]:
    """Family and address of each place that a name stands for. Not by the loop, whose threads end with the main one."""
    host, port = address.host, address.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        found = await aside(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    return [(family, to) for family, _, _, _, to in found]


async def _connected(family: int, to: Any) -> socket.socket:
    connecting = socket.socket(family, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connecting, to)
    except BaseException:
        connecting.close()
        raise
    return connecting


async def _head(reader: asyncio.StreamReader) -> Tuple[int, Dict[str, str]]:
    while True:
        first = await reader.readline()
        parts = first.split(b" ", 2)
        if len(parts) < 2 or not parts[0].startswith(b"HTTP/1."):
            raise EOFError("the connection was closed") if not first else ValueError("no HTTP answer")
        status = int(parts[1])
        headers: Dict[str, str] = {}
        while True:
            line = (await reader.readline()).decode("latin-1")
            if not line.endswith("\n"):
                raise EOFError("the connection was closed")
            if not line.strip():
                break
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
            if len(headers) > 100:
                raise ValueError("too many headers")
        if status >= 200:
            return status, headers


class Said:
    """One event of a stream."""

    def __init__(self, kind: str, data: str, id: Optional[str]) -> None:
        self.kind, self.data, self.id = kind, data, id


async def events(answer: Answer, silence: float) -> AsyncIterator[Said]:
    """The events of a stream, until it breaks or is silent for too long: the service says something every second."""
    text = b""
    pieces = answer.pieces()
    try:
        while True:
            try:
                text += await within(pieces.__anext__(), silence)
            except (StopAsyncIteration, asyncio.TimeoutError, OSError, EOFError, ValueError):
                return
            text = text.replace(b"\r\n", b"\n")
            while b"\n\n" in text:
                block, _, text = text.partition(b"\n\n")
                said = _event(block.decode("utf-8", "replace"))
                if said is not None:
                    yield said
            if len(text) > LINE_MAX * 16:
                return
    finally:
        answer.close()


def _event(block: str) -> Optional[Said]:
    kind, id, data = "message", None, []
    for line in block.split("\n"):
        field, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if field == "event":
            kind = value
        elif field == "id":
            id = value
        elif field == "data":
            data.append(value)
    return Said(kind, "\n".join(data), id) if data else None
