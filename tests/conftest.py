"""What every test may rely on."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

# A machine that is busy with something else is no reason to fail: the suite has a time limit of its own.
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")

# A shell ignores SIGINT for what it runs in the background, and so would every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
