"""The metadata service of an EC2 instance, version 2, which gives it the keys of its role.

The service answers only requests with a token that it has given before.  The response with the token
travels as many hops as the instance is set to, by default one: a container with a network of its own would
wait for it in vain.  So the service has a second to show itself.  Version 1 needs no token, so whoever can
trick a server into a request can use it: it is never asked.

Sources: Amazon EC2 user guide, "Use the Instance Metadata Service"; botocore's ``InstanceMetadataFetcher``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from mgw.credentials.aws.keys import InstanceMetadata
from mgw.credentials.aws.obtained import read_keys
from mgw.credentials.token_request import (
    EndpointRequest,
    JsonResponse,
    TokenClient,
    TokenRequestError,
    TokenResponse,
    get_request,
    located,
    parse_token_text,
)
from mgw.nouns.secret import Secret

SERVICE_NAME: Final = "AWS's instance metadata service"
PROBE_SECONDS: Final = 1.0
"""How long the service has to show itself: it is next door, or there is none."""
ANSWER_SECONDS: Final = 5.0
"""How long it has for each answer once it is there."""
TOKEN_SECONDS: Final = 21600
TOKEN_PATH: Final = "/latest/api/token"  # noqa: S105 (a path)
ROLES_PATH: Final = "/latest/meta-data/iam/security-credentials/"
NOT_THERE: Final = (
    "on EC2, a container needs the instance's metadata hop limit (HttpPutResponseHopLimit) to be 2 or more; "
    "elsewhere, configure keys, a profile or a role"
)
"""What to do where nothing answers."""

_LIFE: Final = (b"x-aws-ec2-metadata-token-ttl-seconds", str(TOKEN_SECONDS).encode())
_TOKEN_HEADER: Final = b"x-aws-ec2-metadata-token"
_ROLE: Final = re.compile(r"[\w+=,.@-]{1,128}", re.ASCII).fullmatch


class InstanceKeys:
    """Asks the service for the keys of the instance's role.

    :param wall: unix seconds.
    """

    def __init__(self, service: InstanceMetadata, client: TokenClient, wall: Callable[[], float]) -> None:
        self._origin = service.origin
        self._client = client
        self._wall = wall

    async def fetch(self) -> TokenResponse:
        """Return new keys.

        :raises TokenRequestError: there are none.
        """
        try:
            return await self._fetch()
        except TokenRequestError as error:
            raise located(error, self._origin) from None

    async def _fetch(self) -> TokenResponse:
        token = await self._token()
        self._client.recent.note(token)
        role = parse_role(await self._get(ROLES_PATH, token))
        keys = parse_instance_keys(await self._get(ROLES_PATH + role, token), self._wall)
        self._client.recent.note(keys)
        return keys

    async def _token(self) -> Secret:
        request = EndpointRequest("PUT", self._origin + TOKEN_PATH, (_LIFE,), b"")
        try:
            response = await self._client.ask(request, SERVICE_NAME, PROBE_SECONDS)
        except TokenRequestError as error:
            if error.response_status is not None:
                raise
            what = error.message.partition("; ")[0].partition(": ")[0]
            raise TokenRequestError(f"{what}: {NOT_THERE}") from None
        return parse_session_token(response)

    async def _get(self, path: str, token: Secret) -> JsonResponse:
        header = (_TOKEN_HEADER, token.reveal().encode("ascii"))
        return await self._client.ask(
            get_request(self._origin + path, (header,)), SERVICE_NAME, ANSWER_SECONDS
        )


def parse_session_token(response: JsonResponse) -> Secret:
    """Return the token that other requests need.

    :raises TokenRequestError: there is none.
    """
    status = response.status
    if status != 200:
        what = "it is turned off for this instance" if status == 403 else "it gives no token"
        raise TokenRequestError(f"{SERVICE_NAME} answered {status}: {what}", status)
    try:
        return parse_token_text(response.body.decode("latin-1").strip(), "token")
    except ValueError as fault:
        raise TokenRequestError(f"{SERVICE_NAME} answered {status}, but {fault}", status) from None


def parse_role(response: JsonResponse) -> str:
    """Return the name of the instance's role.

    :raises TokenRequestError: it has none.
    """
    status = response.status
    if status == 404:
        raise TokenRequestError(f"{SERVICE_NAME} answered 404: the instance has no role; give it one", status)
    _check_status(status)
    name = response.body.decode("latin-1").strip().partition("\n")[0].strip()
    if not _ROLE(name) or not name.strip("."):
        raise TokenRequestError(f"{SERVICE_NAME} answered {status}, but without the name of a role", status)
    return name


def parse_instance_keys(response: JsonResponse, wall: Callable[[], float]) -> TokenResponse:
    """Return the keys in a response.

    :raises TokenRequestError: it is an error, or none that can be used.
    """
    status = response.status
    _check_status(status)
    if response.fields is None:
        raise TokenRequestError(
            f"{SERVICE_NAME} answered {status}, but its body is not a JSON object", status
        )
    if response.fields.get("Code", "Success") != "Success":
        what = "it has no keys for the instance's role: check that EC2 may assume the role"
        raise TokenRequestError(f"{SERVICE_NAME} answered that {what}", status)
    try:
        return read_keys(response.fields, "Token", response.headers, wall)
    except ValueError as fault:
        raise TokenRequestError(f"{SERVICE_NAME} answered {status}, but {fault}", status) from None


def _check_status(status: int) -> None:
    if status != 200:
        raise TokenRequestError(f"{SERVICE_NAME} answered {status}: try again later", status)
