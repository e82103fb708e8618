"""Who calls: what of it needs a clock, a file or a connection."""
