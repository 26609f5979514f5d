"""Time that goes on while the machine sleeps: a lease does, too."""

from __future__ import annotations

import sys
import time
from typing import Callable


def _choose() -> Callable[[], float]:
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    if boot is None and sys.platform == "darwin":
        # There it counts sleep, unlike `time.monotonic`.
        boot = getattr(time, "CLOCK_MONOTONIC", None)
    if boot is None:
        return time.monotonic
    try:
        time.clock_gettime(boot)
    except OSError:
        return time.monotonic
    chosen: int = boot
    return lambda: time.clock_gettime(chosen)


now = _choose()
"""Seconds since some moment; never goes back."""


def valid_until(sent: float, ttl: float) -> float:
    """Until when a grant may be believed in: from before the request left, less what two clocks may drift apart."""
    return sent + ttl - (ttl / 100 + 0.002)
