"""``auth: aws``: which settings belong together, and what is left to the host, the environment and a profile.

The keys themselves are the business of :mod:`mgw.credentials.aws`.  Of the shared files of AWS's tools, only
the region of a profile is read here, where nothing else says one.
"""

from __future__ import annotations

from typing import Any, Final

from mgw.config.auths import AuthMode
from mgw.config.aws_hosts import AwsHost, is_region, read_host, suffix_of
from mgw.config.aws_profiles import DEFAULT, Variables, profile_named, read_profiles
from mgw.config.aws_settings import (
    KEYS,
    PAIR,
    PROFILE_VARIABLE,
    REGION_VARIABLES,
    STS_VARIABLE,
    AwsEnvironment,
    AwsSettings,
)
from mgw.config.checks import checked_sts_url
from mgw.config.environment import LoadContext
from mgw.config.problems import Path
from mgw.config.provider import Provider
from mgw.config.quoting import quote
from mgw.config.settings_base import set_keys
from mgw.nouns.kinds import KINDS, KindRow, enumerated, kinds_where
from mgw.nouns.secret import Secret

_IN_CLEAR: Final = "hosts of AWS are called by https://, found http://"
_A_REGION: Final = "expected the name of a region, such as us-east-1"


def region_in_environment(context: LoadContext) -> str | None:
    """Return the region that the environment names."""
    for variable in REGION_VARIABLES:
        region = context.environ.get(variable)
        if region:
            if is_region(region):
                return region
            context.report.add_environment(variable, _A_REGION)
            return None
    return None


def settle_aws(provider: Provider, auth: AuthMode | None, path: Path, context: LoadContext) -> dict[str, Any]:
    """Return the settings for AWS as they are to be used, the region of kinds whose address it is part of.

    The values are those of a provider's fields: any type.
    """
    row = None if provider.kind is None else KINDS[provider.kind]
    host = read_host(provider.base_url or "")
    if auth is not AuthMode.AWS:
        if row is not None and row.regional_url is not None:
            _check_scheme(provider, host, path, context)
        return {}
    if row is not None:
        _check_kind(provider, row, path, context)
    _check_scheme(provider, host, path, context)
    here = (*path, "aws")
    stated = AwsSettings.model_construct() if provider.aws is None else provider.aws
    keys = _settle_keys(stated, here, context)
    environment = AwsEnvironment.of(context.environ)
    settled = stated.model_copy(update={**keys, "environment": environment})
    _check_together(stated, here, context)
    has_no_host = provider.base_url is None and (row is None or row.regional_url is None)
    if has_no_host or context.report.has_problem_below((*here, "region")):
        return {"aws": settled}
    region = _region(settled, host, path, context)
    return {
        "aws": settled.model_copy(
            update={
                "region": region,
                "service": _service(settled, host, row, path, context),
                "sts_url": _sts_url(settled, region, here, context),
            }
        )
    }


def _check_kind(provider: Provider, row: KindRow, path: Path, context: LoadContext) -> None:
    """Note kinds whose hosts want no signatures of AWS, and addresses that do not."""
    if not row.takes_aws:
        kinds = enumerated(kinds_where(lambda row: row.takes_aws))
        message = f"auth aws is only for the kinds {kinds}, found kind {row.kind}"
        context.report.add((*path, "auth"), message)
        return
    is_vendors = row.base_url is not None and provider.base_url in (None, row.base_url)
    if is_vendors and not context.report.has_problem_below((*path, "base_url")):
        message = f"auth aws signs requests, and {row.base_url} takes no signatures: set base_url"
        context.report.add((*path, "auth"), message)


def _check_scheme(provider: Provider, host: AwsHost, path: Path, context: LoadContext) -> None:
    if host.is_aws and provider.base_url.startswith("http:"):
        context.report.add((*path, "base_url"), _IN_CLEAR)


def _is_open(url: str) -> bool:
    """Whether a host of AWS is called in clear text."""
    return url.startswith("http:") and read_host(url).is_aws


def _settle_keys(aws: AwsSettings, path: Path, context: LoadContext) -> dict[str, Secret | None]:
    """Return the keys that variables hold."""
    found: dict[str, Secret | None] = {}
    for name in KEYS:
        by_name, variable = (*path, f"{name}_env"), getattr(aws, f"{name}_env")
        if variable is None:
            continue
        if context.is_set(getattr(aws, name), (*path, name)):
            context.report.add(by_name, f"{name} is also set: keep only one of them")
        else:
            found[name] = context.key_from(variable, by_name)
    return found


def _check_together(aws: AwsSettings, path: Path, context: LoadContext) -> None:
    """Note settings that need another one, or cannot stand beside it."""
    stated = {
        name
        for name in AwsSettings.model_fields
        if name in set_keys(aws) or context.report.has_problem_below((*path, name))
    }
    keys = [name for name in KEYS if {name, f"{name}_env"} & stated]
    missing = [name for name in PAIR if name not in keys]
    if keys and missing:
        message = f"missing: {' and '.join(PAIR)} require each other"
        context.report.add((*path, missing[0]), message)
    if keys:
        for other in ("profile", "web_identity_token_file"):
            if other in stated:
                message = f"{_form(keys[0], stated)} is also set: the keys come from there, so remove {other}"
                context.report.add((*path, other), message)
    for name in ("external_id", "web_identity_token_file"):
        if name in stated and "role_arn" not in stated:
            context.report.add((*path, name), "requires role_arn")


def _form(name: str, stated: set[str]) -> str:
    return name if name in stated else f"{name}_env"


def _region(aws: AwsSettings, host: AwsHost, path: Path, context: LoadContext) -> str | None:
    """Return the region that requests are signed for."""
    if aws.region is not None and host.region not in (None, aws.region):
        message = f"the host of base_url is in {host.region}, found {aws.region}"
        context.report.add((*path, "aws", "region"), message)
    region = aws.region or host.region or region_in_environment(context)
    if region is not None or any(context.environ.get(variable) for variable in REGION_VARIABLES):
        return region
    return _region_of_profile(aws, path, context)


def _region_of_profile(aws: AwsSettings, path: Path, context: LoadContext) -> str | None:
    name = profile_of(aws, aws.environment)
    where = (*path, "aws", "profile") if aws.profile is not None else (*path, "auth")
    try:
        profiles = read_profiles(aws.environment, context.read_shared_file)
        is_meant = name != DEFAULT or aws.profile is not None
        variable = variable_of_profile(aws)
        profile = profile_named(name, profiles, aws.environment, variable) if is_meant else profiles.get(name)
    except ValueError as error:
        context.report.add(where, str(error))
        return None
    region = None if profile is None else profile.get("region")
    if region is None:
        said = "the host of base_url, AWS_REGION and the profile do not name one"
        context.report.add((*path, "aws", "region"), f"missing, expected a region: {said}")
    elif not is_region(region):
        context.report.add(where, f"the region of the profile is not valid: {_A_REGION}")
        return None
    return region


def profile_of(aws: AwsSettings, environ: Variables) -> str:
    """Return the name of the profile that is used."""
    return aws.profile or environ.get(PROFILE_VARIABLE) or DEFAULT


def variable_of_profile(aws: AwsSettings) -> str | None:
    """Return the variable that may name the profile; ``None``: a setting does."""
    return PROFILE_VARIABLE if aws.profile is None else None


def _service(
    aws: AwsSettings, host: AwsHost, row: KindRow | None, path: Path, context: LoadContext
) -> str | None:
    """Return the name of the service that requests are signed for."""
    known = host.service
    if known is None and row is not None:
        known = row.aws_service
    if aws.service is not None:
        if host.service not in (None, aws.service):
            message = f"requests to {host.label} are signed for {host.service}, found {quote(aws.service)}"
            context.report.add((*path, "aws", "service"), message)
        return aws.service
    if known is None and not context.report.has_problem_below((*path, "aws", "service")):
        message = "missing, expected a signing name, such as bedrock: the host does not imply one"
        context.report.add((*path, "aws", "service"), message)
    return known


def _sts_url(aws: AwsSettings, region: str | None, path: Path, context: LoadContext) -> str | None:
    """Return the address of STS."""
    if aws.sts_url is not None:
        if _is_open(aws.sts_url):
            context.report.add((*path, "sts_url"), _IN_CLEAR)
        return aws.sts_url
    stated = context.environ.get(STS_VARIABLE)
    if stated:
        try:
            found = checked_sts_url(stated)
        except ValueError as error:
            context.report.add_environment(STS_VARIABLE, str(error))
        else:
            if _is_open(found):
                context.report.add_environment(STS_VARIABLE, _IN_CLEAR)
            return found
    return None if region is None else f"https://sts.{region}.{suffix_of(region)}"
