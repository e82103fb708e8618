"""Estimates of token counts, where no upstream can be asked.  Pure."""
