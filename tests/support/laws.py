"""How many examples a law is tried with: fewer or more than the usual number, in every profile.

``settings(max_examples=60)`` on a law would mean 60 examples in the thorough profile, too.
"""

from __future__ import annotations

from typing import Final

from hypothesis import HealthCheck, settings

USUAL: Final = 150
THOROUGH: Final = 1500
# A machine that is busy with something else is no reason to fail: the suite has a time limit of its own.
_STEADY: Final = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def load_profiles() -> None:
    """Know the profiles; ``--hypothesis-profile=thorough`` chooses the other one."""
    settings.register_profile("steady", _STEADY, max_examples=USUAL)
    settings.register_profile("thorough", _STEADY, max_examples=THOROUGH)
    settings.load_profile("steady")


def is_thorough() -> bool:
    """Whether laws are tried with more than the usual number."""
    return settings().max_examples > USUAL


def examples(count: int) -> settings:
    """Try a law with ``count`` examples in place of the usual number, and with as many times more as all."""
    return settings(max_examples=count * settings().max_examples // USUAL)
