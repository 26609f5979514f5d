"""Requests, and which replica they go to."""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import Any, AsyncIterator, Callable, Dict, List, Mapping, Optional, Tuple
from urllib.parse import urlencode

from ._aside import within
from ._clock import now
from ._http import Answer, Broken, Replica, Said, events
from ._settings import Address, Credential
from .errors import FencepostError, Unreachable, from_problem

ANSWER_TIME = 5.0
# A replica says something every second; after so long it is not there any more.
SILENCE_MAX = 4.0

Json = Dict[str, Any]


def encoded(name: str) -> str:
    """A name as it stands in a path."""
    plain = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_~"
    return "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in name.encode("utf-8"))


class Service:
    """All replicas. Whoever answered last is asked first."""

    def __init__(self, addresses: List[Address], credential: Credential, context: Optional[ssl.SSLContext]) -> None:
        self._replicas = [Replica(address, context) for address in addresses]
        self._credential = credential
        self._current = 0

    def close(self) -> None:
        for replica in self._replicas:
            replica.close()

    def leave(self, replica: int) -> None:
        """From now on another one is asked first."""
        if self._current == replica:
            self._current = (replica + 1) % len(self._replicas)

    async def ask(
        self,
        method: str,
        path: str,
        body: Optional[Mapping[str, Any]] = None,
        *,
        query: Optional[Mapping[str, str]] = None,
        each: float = ANSWER_TIME,
        until: Optional[float] = None,
        repeats: bool = True,
        unheard: Callable[[], None] = lambda: None,
    ) -> Json:
        """Asks one replica after another, each for so long, until one has answered.

        What may have run is sent again only if it `repeats`: under the same owner it is the same claim. An error after
        that has `asked_before`: somebody may have done it, and said so to nobody. `unheard` is called for each request
        that may have run, and of which nobody told the outcome.
        """
        target = f"{path}?{urlencode(query)}" if query else path
        asked_before = False
        trouble: FencepostError = Unreachable("no time was left to ask")
        for _ in range(len(self._replicas)):
            index = self._current
            left = each if until is None else min(each, until - now())
            if left <= 0:
                break
            try:
                return await within(self._whole(index, method, target, body, repeats), left)
            except asyncio.TimeoutError:
                replica = self._replicas[index].address
                trouble = Unreachable(f"{replica}: no answer within {left:.3g} s", outcome_unknown=True)
            except Broken as broken:
                trouble = Unreachable(str(broken), outcome_unknown=broken.sent)
            except Unreachable as unreachable:
                trouble = unreachable
            except FencepostError as error:
                error.asked_before = error.asked_before or asked_before
                raise
            self.leave(index)
            assert isinstance(trouble, Unreachable)
            if trouble.outcome_unknown:
                unheard()
            asked_before = asked_before or trouble.outcome_unknown
            if asked_before and not repeats:
                break
        if isinstance(trouble, Unreachable):
            trouble.outcome_unknown = asked_before
        raise trouble

    async def _whole(
        self, index: int, method: str, target: str, body: Optional[Mapping[str, Any]], repeats: bool
    ) -> Json:
        answer = await self._begin(index, method, target, body, {}, repeats)
        body_read = await answer.whole()
        try:
            return _read(answer, body_read)
        except FencepostError as error:
            error.asked_before = answer.sent_before
            if isinstance(error, Unreachable):
                error.outcome_unknown = error.outcome_unknown or answer.sent_before
            raise

    async def _begin(
        self,
        index: int,
        method: str,
        target: str,
        body: Optional[Mapping[str, Any]],
        more: Dict[str, str],
        repeats: bool,
    ) -> Answer:
        headers = {"accept": "application/json", **more}
        data = b""
        if body is not None:
            data = json.dumps(body).encode("utf-8")
            headers["content-type"] = "application/json"
        key = self._credential.header()
        if key is not None:
            headers["authorization"] = key
        return await self._replicas[index].send(method, target, headers, data, repeats)

    async def stream(
        self,
        method: str,
        path: str,
        body: Optional[Mapping[str, Any]] = None,
        *,
        query: Optional[Mapping[str, str]] = None,
        last_id: Optional[str] = None,
        unheard: Callable[[], None] = lambda: None,
    ) -> Tuple[int, AsyncIterator[Said]]:
        """Opens a stream at whichever replica begins to answer, and says which. An answer that is none is an error."""
        target = f"{path}?{urlencode(query)}" if query else path
        more = {"accept": "text/event-stream"}
        if last_id is not None:
            more["last-event-id"] = last_id
        trouble = Unreachable("no replica is known")
        for _ in range(len(self._replicas)):
            index = self._current
            try:
                beginning = self._begin(index, method, target, body, more, True)
                answer = await within(beginning, ANSWER_TIME, Answer.close)
                if answer.status == 200:
                    return index, events(answer, SILENCE_MAX)
                _read(answer, await within(answer.whole(), ANSWER_TIME))
                trouble = Unreachable("an answer that is no stream")
            except asyncio.TimeoutError:
                trouble = Unreachable("the service does not answer", outcome_unknown=True)
            except Broken as broken:
                trouble = Unreachable(str(broken), outcome_unknown=broken.sent)
            except Unreachable as unreachable:
                trouble = unreachable
            self.leave(index)
            if trouble.outcome_unknown:
                unheard()
        raise trouble


def _read(answer: Answer, body: bytes) -> Json:
    try:
        data = json.loads(body) if body else {}
    except ValueError:
        data = None
    if answer.status == 200 and isinstance(data, dict):
        return data
    if answer.status == 200:
        raise Unreachable("an answer that cannot be read: is this a lock service?", outcome_unknown=True)
    raise from_problem(answer.status, data if isinstance(data, dict) else {}, answer.headers.get("retry-after"))
