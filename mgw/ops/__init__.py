"""The operator's eyes."""
