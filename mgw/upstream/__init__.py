"""Connections to providers: dialing, TLS, pools, requests and responses."""
