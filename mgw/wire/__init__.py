"""Bytes without meaning.  Pure."""
