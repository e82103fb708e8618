"""What the vendors' platforms have in common: resources, their pages, files, and where they are stored."""
