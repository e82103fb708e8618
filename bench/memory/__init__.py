"""The cost of a request without kernel and rivals: the whole gateway between two ends in memory."""
