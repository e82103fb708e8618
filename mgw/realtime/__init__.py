"""One WebSocket session: its slot, the dial, the relay of its frames, and its end."""
