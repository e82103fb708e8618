"""Subscription credentials: accounts from a login, stored in a file and refreshed from there."""
