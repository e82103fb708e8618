"""Several hosts share limits, session slots and cooldowns through Redis."""
