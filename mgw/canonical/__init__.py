"""Meaning without bytes."""
