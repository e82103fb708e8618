"""Amazon's credentials: where they come from, how they are renewed, and how they sign requests (SigV4)."""
