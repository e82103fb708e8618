"""Request bodies that need not be in memory: stored on disk, and sent from there."""
