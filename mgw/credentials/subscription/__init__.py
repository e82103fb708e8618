"""Subscription credentials: accounts that somebody logged in to, kept in a file and refreshed from there."""
