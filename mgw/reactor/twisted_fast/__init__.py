"""Shorter paths through Twisted, on its private names; each checks itself and falls back to Twisted's own."""
