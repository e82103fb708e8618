"""Faults: words of a model's name and headers."""

import pytest

from mgw_sim.faults import UnknownFaultError, read_faults


def test_faults_are_read_from_models_and_headers() -> None:
    faults = read_faults(
        "p/gpt-4.1+sim-delay-5.sim-stall-head", [("x-sim-status", "429"), ("x-sim-1xx", "on")]
    )
    assert (faults.number("delay"), faults.number("status")) == (5, 429)
    assert "stall-head" in faults
    assert "1xx" in faults


@pytest.mark.parametrize(
    "model",
    [
        "sim-",
        "sim-delay",
        "sim-delay-x",
        "sim-stall-head-3",
        "sim-chunk",
        "sim-flaky-503",
        "sim-stop",
        "sim-usage-often",
    ],
)
def test_a_misspelt_fault_is_refused(model: str) -> None:
    with pytest.raises(UnknownFaultError):
        read_faults(model, ())
