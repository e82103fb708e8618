"""What settings for AWS leave to the environment."""

from __future__ import annotations

from typing import Final

from mgw.config.aws_hosts import is_region
from mgw.config.environment import LoadContext

REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
"""The variables that name a region; the first counts."""


def region_in_environment(context: LoadContext) -> str | None:
    """Return the region that the environment names."""
    for variable in REGION_VARIABLES:
        region = context.environ.get(variable)
        if region:
            if is_region(region):
                return region
            context.report.add_environment(variable, "expected the name of a region, such as us-east-1")
            return None
    return None
