"""What every test may rely on."""

from __future__ import annotations

import signal

# A shell ignores SIGINT for what it runs in the background, and so would every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
