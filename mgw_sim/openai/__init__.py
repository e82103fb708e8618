"""OpenAI's API, and what hosts that speak its wire add."""
