"""Several hosts share limits and cooldowns through Redis."""
