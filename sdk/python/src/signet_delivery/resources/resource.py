"""What resources share."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from .._transport import QueryValue, Transport


def metadata_query(metadata: Optional[Mapping[str, str]]) -> Dict[str, QueryValue]:
    """Returns the query that selects endpoints by their metadata."""
    return {f"metadata[{key}]": value for key, value in (metadata or {}).items()}


def present(**members: Any) -> Dict[str, Any]:
    """Returns the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


class Resource:
    """Makes calls of one noun."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
