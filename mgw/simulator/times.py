"""How the vendors spell the time."""

from datetime import UTC, datetime


def time_of(seconds: int) -> str:
    """A moment as RFC 3339, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
