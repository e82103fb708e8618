"""Several processes as one service: the fork server, the supervisor, and the channel to each worker."""
