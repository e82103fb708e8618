"""The whole gateway between two ends in memory: what a request costs without a kernel, counted and timed."""
