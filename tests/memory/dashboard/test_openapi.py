"""What the description of the API says of refusals, of the log and of who may come in."""

from __future__ import annotations

import json
from typing import Any

from mgw.dashboard.openapi import describe_api


def described() -> Any:  # Any: JSON
    return json.loads(describe_api())


def test_what_may_be_unavailable_says_so() -> None:
    found = {
        path.rpartition("/")[2]: operation["responses"]["503"]
        for path, methods in described()["paths"].items()
        for operation in methods.values()
        if isinstance(operation, dict) and "503" in operation["responses"]
    }
    assert set(found) == {"usage", "requests", "events", "{entry}"}
    for response in found.values():
        assert set(response) == {"description", "content", "headers"}
        assert "Retry-After" in response["headers"]


def test_the_log_says_what_it_leaves_out() -> None:
    (get,) = described()["paths"]["/v1/dashboard/logs"].values()
    for words in ("`usage` and `http`", "before the dashboard was turned on", "redacted"):
        assert words in get["summary"]
    (lines,) = get["parameters"]
    assert lines["schema"] == {"type": "integer", "minimum": 0, "maximum": 1000, "default": 100}


def test_every_way_to_show_a_key_is_described() -> None:
    whole = described()
    assert [name for way in whole["security"] for name in way] == list(whole["components"]["securitySchemes"])
