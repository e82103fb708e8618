"""mgw, a multi-dialect model gateway."""
