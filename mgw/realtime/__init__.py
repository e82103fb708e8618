"""WebSocket sessions: slots, the connection to the provider, the relay of frames, and the end."""
