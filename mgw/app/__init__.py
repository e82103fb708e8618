"""The daemon and what it consists of: checks, services, the worker, telemetry and the demo."""
