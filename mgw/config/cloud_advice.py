"""Warnings about providers in clouds: settings that are valid but probably a mistake.

Sources: AWS's user guide of Bedrock (which models want an inference profile), Anthropic's SDK for Vertex AI
(which host serves a location).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from mgw.config.aws_hosts import read_host
from mgw.config.checks import is_loopback
from mgw.config.problems import dotted_path
from mgw.config.provider import Provider
from mgw.config.quoting import listed, redact
from mgw.nouns.vocabulary import Kind

_PUBLISHER: Final = re.compile("(?:^|/)publishers/anthropic(?:/|$)")
_LOCATION: Final = re.compile("(?:^|/)locations/([^/]+)")
_VERTEX_SUFFIX: Final = "aiplatform.googleapis.com"
_VERTEX_HOST: Final = re.compile(
    r"(?:[a-z0-9-]+-)?aiplatform\.googleapis\.com|aiplatform\.[a-z0-9-]+\.rep\.googleapis\.com"
)
_MULTIPLE: Final = ("us", "eu")
"""Locations of Vertex AI that span several regions."""
_ARN: Final = re.compile("arn:[^:]+:bedrock:([^:]+):.+")
_UNPREFIXED: Final = "anthropic."
_NEEDS_PROFILES: Final = "bedrock-runtime"
_MANTLE: Final = "bedrock-mantle"
_ANTHROPIC_PATH: Final = "/anthropic/v1"
_VENDORS_ID: Final = "claude-"
"""How Anthropic's own ids of models begin."""


def cloud_advice(providers: dict[str, Provider]) -> Iterator[str]:
    """Yield them, provider by provider."""
    for name, provider in providers.items():
        block = ("providers", name)
        for setting, said in (*_of_addresses(provider), *_of_models(provider)):
            yield f"{dotted_path((*block, *setting))}: {said}"


_Advice = tuple[tuple[str, ...], str]


def _of_addresses(provider: Provider) -> Iterator[_Advice]:
    if provider.aws is not None:
        if _is_open(provider.base_url):
            yield ("base_url",), "plain HTTP, so bodies are signed but travel in clear text"
        if _is_open(provider.aws.sts_url or ""):
            yield ("aws", "sts_url"), "plain HTTP, so keys of AWS travel in clear text"
    if provider.kind is Kind.BEDROCK and urlsplit(provider.base_url).path:
        said = "has a path, and calls of kind bedrock go to /model/… below it; the usual address has none"
        yield ("base_url",), f"{redact(provider.base_url)} {said}"
    if provider.kind is Kind.BEDROCK and read_host(provider.base_url).label == _MANTLE:
        origin = redact("{0.scheme}://{0.netloc}".format(urlsplit(provider.base_url)))
        said = f"{origin} does not serve InvokeModel: use kind anthropic with {origin}{_ANTHROPIC_PATH}"
        yield ("base_url",), said
    is_claude = provider.kind is Kind.VERTEX_ANTHROPIC
    if is_claude or provider.is_vertex:
        yield from _of_vertex(provider.base_url, is_claude=is_claude)


def _is_open(url: str) -> bool:
    """Whether others could read what is sent to an address."""
    parts = urlsplit(url)
    return parts.scheme == "http" and not is_loopback(parts.hostname or "")


def _of_vertex(base_url: str, *, is_claude: bool) -> Iterator[_Advice]:
    parts, shown = urlsplit(base_url), redact(base_url)
    if is_claude and not _PUBLISHER.search(parts.path):
        said = "has no publishers/anthropic, which the addresses of Claude on Vertex AI have"
        yield ("base_url",), f"{shown} {said}"
    location, host = _LOCATION.search(parts.path), parts.hostname or ""
    if location is not None and _VERTEX_HOST.fullmatch(host) and host != _host_of(location[1]):
        where = f"location {redact(location[1])} is served by {redact(_host_of(location[1]))}"
        yield ("base_url",), f"{shown}: {where}"


def _host_of(location: str) -> str:
    """Return the host of Vertex AI that serves a location."""
    if location == "global":
        return _VERTEX_SUFFIX
    if location in _MULTIPLE:
        return f"aiplatform.{location}.rep.googleapis.com"
    return f"{location}-{_VERTEX_SUFFIX}"


def _of_models(provider: Provider) -> Iterator[_Advice]:
    host = read_host(provider.base_url)
    if provider.kind is Kind.BEDROCK:
        vendors = [model for model in provider.models if model.startswith(_VENDORS_ID)]
        if vendors:
            said = "not an id of Bedrock: those of Claude have anthropic. in front (us.anthropic.claude-…)"
            yield ("models",), f"{listed(vendors)}: {said}"
    if host.label.removesuffix("-fips") == _NEEDS_PROFILES:
        bare = [model for model in provider.models if model.startswith(_UNPREFIXED)]
        if bare:
            said = "without a region prefix (us., eu., global., …): newer models need an inference profile"
            yield ("models",), f"{listed(bare)} {said}"
    region = (provider.aws and provider.aws.region) or host.region
    arns = [found for model in provider.models if (found := _ARN.fullmatch(model)) is not None]
    others = {found[1] for found in arns if found[1] != region} if region is not None else set()
    if others:
        yield ("models",), f"an ARN is of region {listed(sorted(others))}, and requests go to {region}"
