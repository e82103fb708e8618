"""Hosts of AWS: what their names say about the region and the service.

Sources: the partitions and endpoints of botocore (``partitions.json``, ``endpoints.json``), and its rules for
the endpoints of ``bedrock-runtime``.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

_SUFFIXES: Final = MappingProxyType(
    {
        "cn-": "amazonaws.com.cn",
        "eusc-": "amazonaws.eu",
        "us-iso-": "c2s.ic.gov",
        "us-isob-": "sc2s.sgov.gov",
        "us-isof-": "csp.hci.ic.gov",
        "eu-isoe-": "cloud.adc-e.uk",
    }
)
"""How the names of hosts end in the partitions of AWS, by how the names of their regions begin."""
_SUFFIX: Final = "amazonaws.com"
_NEWER: Final = (
    *("api.aws", "api.amazonwebservices.com.cn", "api.amazonwebservices.eu"),
    *("api.aws.ic.gov", "api.aws.scloud", "api.aws.hci.ic.gov", "api.cloud-aws.adc-e.uk"),
)
"""How the names of hosts with IPv6, and those of newer services, end."""
_KNOWN: Final = tuple(f".{suffix}" for suffix in (_SUFFIX, *_SUFFIXES.values(), *_NEWER))
_REGION: Final = re.compile(r"[a-z]{2,8}(?:-[a-z]{2,16}){1,3}-[0-9]{1,2}")
_GLOBAL_STS: Final = "sts.amazonaws.com"
_REGION_OF_GLOBAL_STS: Final = "us-east-1"
_PRIVATE: Final = "vpce"
"""Stands behind the region in the names of endpoints within a VPC."""
_SIGNED_AS: Final = MappingProxyType(
    {
        "bedrock-runtime": "bedrock",
        "bedrock-runtime-fips": "bedrock",
        "bedrock-mantle": "bedrock-mantle",
        "aws-external-anthropic": "aws-external-anthropic",
    }
)
"""The name by which requests to a service are signed, by the label before the region."""


class AwsHost(Struct, frozen=True):
    """What the name of a host says."""

    label: str = ""
    """What stands before the region, such as ``bedrock-runtime``."""
    region: str | None = None
    is_aws: bool = False
    """Whether it is one of AWS's own hosts."""

    @property
    def service(self) -> str | None:
        """The name by which its requests are signed, where that is known."""
        return _SIGNED_AS.get(self.label)


def read_host(base_url: str) -> AwsHost:
    """Return what the host of an address says."""
    host = (urlsplit(base_url).hostname or "").rstrip(".")
    suffix = next((suffix for suffix in _KNOWN if host.endswith(suffix)), None)
    if suffix is None:
        return AwsHost()
    labels = host.removesuffix(suffix).split(".")
    if labels[-1] == _PRIVATE:
        labels.pop()
    if len(labels) < 2 or not is_region(labels[-1]):
        return AwsHost(is_aws=True)
    return AwsHost(labels[-2], labels[-1], is_aws=True)


def region_of_sts(url: str, region: str) -> str:
    """Return the region that requests to an address of STS are signed for.

    :param region: the provider's, for hosts whose names say none.
    """
    if urlsplit(url).hostname == _GLOBAL_STS:
        return _REGION_OF_GLOBAL_STS
    return read_host(url).region or region


def is_region(text: str) -> bool:
    """Say whether a text looks like the name of a region."""
    return _REGION.fullmatch(text) is not None


def suffix_of(region: str) -> str:
    """Return how the names of a region's hosts end."""
    return next((suffix for begin, suffix in _SUFFIXES.items() if region.startswith(begin)), _SUFFIX)


def regional_address(url: str, region: str) -> str:
    """Return an address with its region filled in (:attr:`mgw.nouns.kinds.KindRow.regional_url`)."""
    return url.format(region=region, suffix=suffix_of(region))
