"""Monitoring: metrics, logs and probes."""
