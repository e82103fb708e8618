"""The gateway beside nginx in one run, and how its costs grow with what is configured and open."""
