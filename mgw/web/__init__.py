"""The HTTP server: listeners, channels, edge auth, upgrades, and what the gateway answers itself."""
