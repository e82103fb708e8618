"""mgw, a model gateway."""

__version__ = "0.4.0"
DISTRIBUTION = "mgw-gateway"
"""Its name for pip; ``mgw`` on PyPI is another project."""
