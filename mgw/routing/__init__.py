"""Routes, targets, and whether a target supports a route.  Pure."""
