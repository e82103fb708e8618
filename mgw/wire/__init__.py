"""Bytes without meaning: JSON, event streams, forms, frames, headers.  Pure."""
