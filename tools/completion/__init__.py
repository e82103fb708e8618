"""The completions of shells for ``mgw``, from its own description of its command line."""
