"""The command ``mgw``."""
