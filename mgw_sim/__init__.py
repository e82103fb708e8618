"""An upstream for tests, demonstrations and users; it shares no code with the gateway."""
