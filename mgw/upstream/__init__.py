"""Talking to a provider."""
