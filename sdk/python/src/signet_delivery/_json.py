"""JSON with numbers of any length.

``json`` raises ValueError for an integer of more than 4,300 digits, reads 1e400 as infinity, and accepts NaN. Here, a
number that ``int`` or ``float`` cannot hold is a :class:`decimal.Decimal`, which is also sent as a number.
"""

from __future__ import annotations

import json
import re
import uuid
from decimal import Decimal, InvalidOperation
from typing import Any, Callable, List, NoReturn, Union

# Python's own default limit. Below it, conversion is fast.
_MAX_INT_DIGITS = 4_300
_NOT_ZERO = re.compile(r"[^eE]*[1-9]")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _integer(text: str) -> Union[int, Decimal]:
    if len(text) <= _MAX_INT_DIGITS:
        try:
            return int(text)
        except ValueError:
            # The program has set a lower limit.
            pass
    return Decimal(text)


def _real(text: str) -> Union[float, Decimal]:
    value = float(text)
    if abs(value) != float("inf") and (value != 0 or not _NOT_ZERO.match(text)):
        return value
    try:
        return Decimal(text)
    except InvalidOperation:
        # The exponent has more than 18 digits.
        return value


def loads(text: Union[str, bytes]) -> Any:
    """Parses JSON.

    :raises ValueError: for text that is not JSON, such as NaN
    :raises RecursionError: for text that is nested too deeply for Python
    """
    return json.loads(text, parse_int=_integer, parse_float=_real, parse_constant=_no_constant)


def dumps(value: Any, default: Callable[[Any], Any]) -> str:
    """Returns compact JSON, in which a Decimal is a number.

    :param default: returns another form of a value that has no JSON form, or raises TypeError
    :raises ValueError: for NaN and infinity
    """
    mark = uuid.uuid4().hex
    numbers: List[str] = []

    def encode(other: Any) -> Any:
        if not isinstance(other, Decimal):
            return default(other)
        if not other.is_finite():
            raise ValueError(f"{other} is not JSON")
        numbers.append(str(other))
        return f"{mark}{len(numbers) - 1}"

    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=encode)
    return re.sub(rf'"{mark}(\d+)"', lambda found: numbers[int(found[1])], text) if numbers else text
