"""Time, randomness and retry rules."""

from __future__ import annotations

import inspect
import logging
import random
import time
from dataclasses import dataclass
from datetime import timezone
from email.utils import parsedate_to_datetime
from typing import Callable, Optional, TypeVar

from .errors import SignetApiError, SignetTransportError

LOG = logging.getLogger("signet_delivery")
T = TypeVar("T")


@dataclass(frozen=True)
class Runtime:
    """What a test replaces. The network is always real."""

    #: Unix seconds.
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    #: 0 ≤ x < 1, for jitter only.
    random: Callable[[], float] = random.random


@dataclass(frozen=True)
class RetryPolicy:
    """How requests that are safe to repeat are retried. All times are in seconds."""

    #: Maximum number of requests, including the first; 1 never retries.
    attempts: int = 4
    #: Maximum pause before the second request; doubles from there.
    base: float = 0.25
    maximum: float = 8.0
    #: The longest ``Retry-After`` to wait for; beyond it, the caller gets the error.
    maximum_retry_after: float = 30.0


# With 408 and gateway statuses, the service has not decided about the request.
_REPEATABLE = frozenset({408, 429, 502, 503, 504})


# In seconds; larger numbers are not exact.
_LONGEST_WAIT = float(2**53)


def retry_after(header: Optional[str], now: float) -> Optional[float]:
    """Reads ``Retry-After`` (RFC 9110 section 10.2.3), seconds or a date; None if invalid."""
    if header is None:
        return None
    if header.isascii() and header.isdigit():
        return min(float(header), _LONGEST_WAIT)
    try:
        at = parsedate_to_datetime(header)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    # The date of C's asctime names no zone, and every HTTP date is in UTC.
    aware = at if at.tzinfo is not None else at.replace(tzinfo=timezone.utc)
    return max(0.0, aware.timestamp() - now)


def is_repeatable(error: Exception) -> bool:
    """Whether to retry a request that is safe to repeat."""
    if isinstance(error, SignetTransportError):
        return error.code != "INVALID_ANSWER"
    return isinstance(error, SignetApiError) and error.status in _REPEATABLE


def is_rate_limited(error: Exception) -> bool:
    """Whether the service rejected the request before it did anything."""
    return isinstance(error, SignetApiError) and error.status == 429


def _delay(policy: RetryPolicy, attempt: int, error: Exception, jitter: float) -> Optional[float]:
    """Full jitter, so that clients that failed together do not retry together."""
    wanted = error.retry_after if isinstance(error, SignetApiError) else None
    if wanted is None:
        return min(policy.maximum, policy.base * 2.0**attempt) * jitter
    return None if wanted > policy.maximum_retry_after else wanted + policy.base * jitter


def with_retries(
    operation: Callable[[int], T],
    runtime: Runtime,
    policy: RetryPolicy,
    repeat: Callable[[Exception], bool],
) -> T:
    """Runs the operation, which gets the attempt's number, until it succeeds or fails permanently."""
    attempt = 0
    while True:
        try:
            return operation(attempt)
        except (SignetApiError, SignetTransportError) as error:
            last = attempt + 1 >= policy.attempts or not repeat(error)
            wait = None if last else _delay(policy, attempt, error, runtime.random())
            if wait is None:
                raise
        runtime.sleep(wait)
        attempt += 1


def check_function(name: str, function: object) -> None:
    """Raises ValueError for what is no function, or an async one, which nothing here would await."""
    if function is None:
        raise ValueError(f"{name} is not set")
    if not callable(function):
        raise ValueError(f"{name} is not a function")
    called = getattr(function, "__call__", None)
    if any(inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in (function, called)):
        raise ValueError(f"{name} is async, but nothing awaits it here: {name} may call asyncio.run")
