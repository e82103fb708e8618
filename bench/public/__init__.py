"""The gateway by the public method for gateways; see ``docs/public-benchmark.rst``."""
