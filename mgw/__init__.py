"""mgw, a multi-dialect model gateway."""

__version__ = "0.1.0.dev0"
