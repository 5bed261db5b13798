"""The errors of this package. None contains a secret or a token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Mapping, Optional, Tuple

VerificationCode = Literal[
    "HEADERS_MALFORMED",
    "SIGNATURE_INVALID",
    "PAYLOAD_EXPIRED",
    "TIMESTAMP_MISMATCH",
    "ID_MISMATCH",
    "PAYLOAD_MALFORMED",
]
TransportCode = Literal["CONNECTION", "TIMEOUT", "INVALID_ANSWER"]


class SignetError(Exception):
    """Base class of the errors of this package."""


class VerificationError(SignetError):
    """The payload must not be used. Answer 400 for HEADERS_MALFORMED and PAYLOAD_MALFORMED, otherwise 401."""

    def __init__(self, code: VerificationCode, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code: VerificationCode = code


@dataclass(frozen=True)
class FieldProblem:
    """One invalid member of a request."""

    #: JSON pointer into the body; in a 400, ``/`` and the name of the parameter or header.
    pointer: str
    code: str
    #: For humans; may change.
    detail: str


def _text(value: Any) -> Optional[str]:
    return value if isinstance(value, str) and value != "" else None


def _field_problems(problem: Mapping[str, Any]) -> Tuple[FieldProblem, ...]:
    errors = problem.get("errors")
    return tuple(
        FieldProblem(str(each.get("pointer", "")), str(each.get("code", "")), str(each.get("detail", "")))
        for each in (errors if isinstance(errors, list) else [])
        if isinstance(each, dict)
    )


class SignetApiError(SignetError):
    """The service rejected the request: a problem document (RFC 9457), or an OAuth error (RFC 6749)."""

    def __init__(
        self,
        status: int,
        problem: Mapping[str, Any],
        request_id: Optional[str] = None,
        retry_after: Optional[float] = None,
        advice: str = "",
    ) -> None:
        code = _text(problem.get("code")) or (_text(problem.get("error")) or f"HTTP_{status}").upper()
        texts = (_text(problem.get(name)) for name in ("detail", "error_description", "title"))
        detail = next((text for text in texts if text is not None), f"HTTP {status}")
        added = f" {advice}" if advice else ""
        super().__init__(f"{code}: {detail}{added}" + (f" (request {request_id})" if request_id else ""))
        self.status = status
        #: Stable, for instance ``SCOPE_VIOLATION``; ``HTTP_<status>`` if the answer names none.
        self.code: str = code
        #: For support; None if the answer did not come from the service.
        self.request_id = request_id
        #: Every invalid member, with its JSON pointer.
        self.errors = _field_problems(problem)
        #: The whole document.
        self.problem = problem
        #: The wait that the service asks for, in seconds.
        self.retry_after = retry_after


class SignetTransportError(SignetError):
    """There is no answer, or not the service's. The request may or may not have been executed."""

    def __init__(self, code: TransportCode, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code: TransportCode = code


class CredentialStoreError(SignetError):
    """The credential is missing or unreadable."""
