"""What we add to Twisted: deadlines, eager writes, threads, shared work."""
