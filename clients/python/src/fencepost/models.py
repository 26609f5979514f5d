"""What the service tells, as plain data. Spans are seconds, tokens are numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional


def _span(value: Any) -> Optional[float]:
    return None if value is None else float(value) / 1000


def token_number(text: str) -> int:
    """The number of a token; a reader's starts with `r`."""
    return int(text[1:] if text.startswith("r") else text)


@dataclass(frozen=True)
class Holder:
    """Who has a lock."""

    label: str
    token: Optional[int]
    shared: bool
    held: Optional[float] = None
    expires_in: Optional[float] = None
    actor: Optional[str] = None
    payload: Optional[str] = None

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Holder:
        token = data.get("token")
        return cls(
            label=str(data.get("label", "")),
            token=token_number(token) if isinstance(token, str) else None,
            shared=bool(data.get("shared", False)),
            held=_span(data.get("held_ms")),
            expires_in=_span(data.get("expires_in_ms")),
            actor=data.get("actor"),
            payload=data.get("payload"),
        )


@dataclass(frozen=True)
class Waiter:
    """Who is in line."""

    label: str
    shared: bool
    waited: float
    actor: Optional[str] = None

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Waiter:
        waited = float(data.get("waited_ms") or 0) / 1000
        return cls(str(data.get("label", "")), bool(data.get("shared", False)), waited, data.get("actor"))


@dataclass(frozen=True)
class LockState:
    """A lock as its store sees it."""

    name: str
    holders: List[Holder]
    waiters: List[Waiter]
    last_token: Optional[int] = None

    @property
    def is_free(self) -> bool:
        return not self.holders

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> LockState:
        last = data.get("last_token")
        return cls(
            name=str(data.get("name", "")),
            holders=[Holder.of(holder) for holder in data.get("holders", [])],
            waiters=[Waiter.of(waiter) for waiter in data.get("waiters", [])],
            last_token=int(last) if isinstance(last, str) else None,
        )


@dataclass(frozen=True)
class Election:
    """Who leads, and who would."""

    leader: Optional[Holder]
    candidates: List[Waiter]

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Election:
        leader = data.get("leader")
        candidates = [Waiter.of(waiter) for waiter in data.get("candidates", [])]
        return cls(Holder.of(leader) if leader else None, candidates)


@dataclass(frozen=True)
class Permit:
    """One permit of a semaphore: a slot that nobody else has, and its token."""

    slot: int
    token: int


@dataclass(frozen=True)
class YieldRequest:
    """Somebody asks the holder to let go; the holder decides."""

    by: str
    note: str
    number: int

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> YieldRequest:
        return cls(str(data.get("by", "")), str(data.get("note", "")), int(data.get("number", 0)))


@dataclass(frozen=True)
class Event:
    """Something that happened at a replica. `missed`: others happened that nobody can tell any more."""

    kind: str
    name: Optional[str]
    data: Dict[str, Any]
    id: Optional[str] = None
