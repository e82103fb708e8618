"""Usage events, and where they are sent."""
