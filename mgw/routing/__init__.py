"""Which route, which target, may it.  Pure."""
