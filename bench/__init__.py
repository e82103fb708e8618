"""What the gateway costs, beside nginx and beside a proxy of Klein and treq: ``python -m bench.run``."""
