"""Distributed locks through the Fencepost lock service."""

from ._async import AsyncClient, AsyncLock, AsyncLost, AsyncPending, AsyncStream
from ._sync import Client, Lock, Lost, Pending, Stream
from .errors import (
    Busy,
    Deadlock,
    Denied,
    FencepostError,
    Invalid,
    Limited,
    LockLost,
    NotHeld,
    Stale,
    Unreachable,
    Unsupported,
)
from .models import Election, Event, Holder, LockState, Permit, Waiter, YieldRequest

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "AsyncLock",
    "AsyncLost",
    "AsyncPending",
    "AsyncStream",
    "Busy",
    "Client",
    "Deadlock",
    "Denied",
    "Election",
    "Event",
    "FencepostError",
    "Holder",
    "Invalid",
    "Limited",
    "Lock",
    "LockLost",
    "LockState",
    "Lost",
    "NotHeld",
    "Pending",
    "Permit",
    "Stale",
    "Stream",
    "Unreachable",
    "Unsupported",
    "Waiter",
    "YieldRequest",
]
