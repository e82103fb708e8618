"""Several workers as one service: what they cost, and what becomes of requests when one of them dies."""
