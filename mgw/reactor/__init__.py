"""Additions to Twisted: deadlines, eager writes, threads, shared work."""
