"""Who we are to a provider."""
