"""Several processes count as one: the supervisor, its workers, and what they share."""
