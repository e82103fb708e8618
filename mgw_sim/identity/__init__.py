"""Simulated identity providers: their keys, their tokens, and the exchange of these for others."""
