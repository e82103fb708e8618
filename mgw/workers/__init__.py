"""Several processes or hosts that act as one: the supervisor, its workers, and shared state."""
