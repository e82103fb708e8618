"""What the gateway consists of: the daemon, its services, the worker, and the checks before they start."""
