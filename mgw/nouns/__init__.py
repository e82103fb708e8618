"""The words that everything shares: dialects, families, kinds of provider, errors and secrets."""
