"""mgw, a model gateway."""

__version__ = "0.4.0"
DISTRIBUTION = "mgw-gateway"
"""The name for pip; ``mgw`` on PyPI is another project."""
