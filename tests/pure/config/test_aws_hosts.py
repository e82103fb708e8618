"""What the name of a host of AWS says about its region and its service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from mgw.config.aws_hosts import AwsHost, is_region, read_host, regional_address, suffix_of
from mgw.config.load import parse
from mgw.config.problems import ConfigError
from mgw.nouns.kinds import KINDS
from mgw.nouns.vocabulary import Kind

US: Final = "us-east-1"


@pytest.mark.parametrize(
    ("url", "host", "service"),
    [
        (
            "https://bedrock-runtime.us-east-1.amazonaws.com/anthropic/v1",
            AwsHost("bedrock-runtime", US, True),
            "bedrock",
        ),
        (
            "https://BEDROCK-runtime-fips.us-gov-west-1.amazonaws.com",
            AwsHost("bedrock-runtime-fips", "us-gov-west-1", True),
            "bedrock",
        ),
        (
            "https://bedrock-mantle.eu-central-1.api.aws:443/openai/v1",
            AwsHost("bedrock-mantle", "eu-central-1", True),
            "bedrock-mantle",
        ),
        (
            "https://aws-external-anthropic.us-west-2.api.aws/v1",
            AwsHost("aws-external-anthropic", "us-west-2", True),
            "aws-external-anthropic",
        ),
        (
            "https://bedrock-runtime.cn-north-1.amazonaws.com.cn",
            AwsHost("bedrock-runtime", "cn-north-1", True),
            "bedrock",
        ),
        (
            "https://bedrock-runtime.eusc-de-east-1.amazonaws.eu",
            AwsHost("bedrock-runtime", "eusc-de-east-1", True),
            "bedrock",
        ),
        (
            "https://vpce-0a1b-2c3d.bedrock-runtime.us-east-1.vpce.amazonaws.com",
            AwsHost("bedrock-runtime", US, True),
            "bedrock",
        ),
        (
            "https://runtime.sagemaker.us-east-1.amazonaws.com",
            AwsHost("sagemaker", US, True),
            None,
        ),
        ("https://console.amazonaws.com", AwsHost(is_aws=True), None),
        ("https://amazonaws.com", AwsHost(), None),
        ("https://bedrock-runtime.us-east-1.amazonaws.com.example", AwsHost(), None),
        ("https://bedrock-runtime.us-east-1.example", AwsHost(), None),
        ("http://127.0.0.1:8080/v1", AwsHost(), None),
        ("http://[::1]/v1", AwsHost(), None),
    ],
)
def test_a_host_says_its_region_and_its_service(url: str, host: AwsHost, service: str | None) -> None:
    assert read_host(url.lower()) == host
    assert host.service == service


@pytest.mark.parametrize(
    ("region", "suffix"),
    [
        ("us-east-1", "amazonaws.com"),
        ("us-gov-west-1", "amazonaws.com"),
        ("cn-northwest-1", "amazonaws.com.cn"),
        ("eusc-de-east-1", "amazonaws.eu"),
        ("us-iso-east-1", "c2s.ic.gov"),
        ("us-isob-east-1", "sc2s.sgov.gov"),
        ("us-isof-south-1", "csp.hci.ic.gov"),
        ("eu-isoe-west-1", "cloud.adc-e.uk"),
    ],
)
def test_the_hosts_of_a_region_end_as_its_partition_says(region: str, suffix: str) -> None:
    assert is_region(region)
    assert suffix_of(region) == suffix
    url = KINDS[Kind.BEDROCK].regional_url
    assert url is not None
    address = regional_address(url, region)
    assert address == f"https://bedrock-runtime.{region}.{suffix}"
    assert read_host(address) == AwsHost("bedrock-runtime", region, True)


def test_the_partitions_are_those_of_botocore() -> None:
    botocore = pytest.importorskip("botocore")
    file = Path(botocore.__file__).parent / "data" / "partitions.json"
    partitions: Any = json.loads(file.read_text(encoding="utf-8"))  # Any: JSON
    for partition in partitions["partitions"]:
        for region in partition["regions"]:
            if not region.endswith("-global"):
                assert is_region(region)
                assert suffix_of(region) == partition["outputs"]["dnsSuffix"]
                for suffix in ("dnsSuffix", "dualStackDnsSuffix"):
                    host = f"https://bedrock-runtime.{region}.{partition['outputs'][suffix]}"
                    assert read_host(host) == AwsHost("bedrock-runtime", region, True)


@pytest.mark.parametrize(
    "text", ["", "us", "us-east", "US-EAST-1", "us-east-1.evil", "us-east-1/", "us-east-1\n"]
)
def test_what_is_no_region_is_not_taken_for_one(text: str) -> None:
    assert not is_region(text)


def base_url_of(**environ: str) -> str:
    text = "providers: {main: {kind: bedrock, auth: bearer, api_key: a-long-key}}"
    return parse(text, "mgw.yaml", environ).providers["main"].base_url


def test_the_address_of_bedrock_is_that_of_the_region() -> None:
    assert base_url_of(AWS_REGION=US) == "https://bedrock-runtime.us-east-1.amazonaws.com"
    assert base_url_of(AWS_DEFAULT_REGION=US) == "https://bedrock-runtime.us-east-1.amazonaws.com"
    both = base_url_of(AWS_DEFAULT_REGION=US, AWS_REGION="cn-north-1")
    assert both == "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"


def test_a_region_that_is_none_never_becomes_part_of_an_address() -> None:
    with pytest.raises(ConfigError) as refusal:
        base_url_of(AWS_REGION="evil.example/")
    assert "environment: AWS_REGION: expected the name of a region, such as us-east-1" in str(refusal.value)
