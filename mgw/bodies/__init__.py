"""Request bodies that need not be in memory: on disk, and read from there as they are sent."""
