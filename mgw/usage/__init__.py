"""What happened, and who is told."""
