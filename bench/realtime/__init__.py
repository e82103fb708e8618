"""Realtime sessions over WebSockets: the gateway beside nginx and a relay that decodes each message."""
