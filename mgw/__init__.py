"""mgw, a multi-dialect model gateway."""

__version__ = "0.4.0"
