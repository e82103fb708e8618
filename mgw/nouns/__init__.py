"""Vocabulary that everything shares: dialects, families, kinds of provider, errors, secrets.  Pure."""
