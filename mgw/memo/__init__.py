"""What is remembered of earlier requests, and the values that are kept."""
