"""The endpoint that gives a container on ECS or EKS the keys of its role.

Where it may be is checked as its address is read (:mod:`.chain`), since requests carry a token.

Sources: AWS SDKs and tools reference, "Container credential provider"; botocore's ``ContainerProvider`` and
``ContainerMetadataFetcher``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from mgw.credentials.aws.keys import ContainerEndpoint
from mgw.credentials.aws.obtained import read_keys
from mgw.credentials.token_request import (
    AUTHORIZATION,
    HeaderPairs,
    JsonResponse,
    TokenClient,
    TokenRequestError,
    TokenResponse,
    get_request,
    located,
)
from mgw.nouns.secret import Secret
from mgw.reactor.daemon_threads import ThreadRunner
from mgw.reactor.regular_file import MAX_TOKEN_FILE, read_regular_file

ENDPOINT_NAME: Final = "AWS's container credentials endpoint"
FILE_VARIABLE: Final = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"
ANSWER_SECONDS: Final = 5.0
"""How long the endpoint has to answer: it is on the same machine, or next to it."""


class ContainerKeys:
    """Asks an endpoint for keys.

    :param wall: unix seconds.
    :param run: reads the file of the token.
    """

    def __init__(
        self, endpoint: ContainerEndpoint, client: TokenClient, wall: Callable[[], float], run: ThreadRunner
    ) -> None:
        self._endpoint = endpoint
        self._client = client
        self._wall = wall
        self._run = run

    async def fetch(self) -> TokenResponse:
        """Return new keys.

        :raises TokenRequestError: there are none.
        """
        endpoint = self._endpoint
        token = endpoint.token
        if endpoint.token_file is not None:
            token = await self._run(partial(read_container_token, endpoint.token_file))
        headers: HeaderPairs = ()
        if token is not None:
            if not _is_header_value(token.reveal()):
                raise TokenRequestError(
                    f"the token for {ENDPOINT_NAME} has characters that a header cannot have"
                )
            self._client.recent.note(token)
            headers = ((AUTHORIZATION, token.reveal().encode("latin-1")),)
        request = get_request(endpoint.url, headers)
        response = await self._client.ask(request, ENDPOINT_NAME, ANSWER_SECONDS)
        try:
            keys = parse_container_keys(response, self._wall)
        except TokenRequestError as error:
            raise located(error, endpoint.url) from None
        self._client.recent.note(keys)
        return keys


def parse_container_keys(response: JsonResponse, wall: Callable[[], float]) -> TokenResponse:
    """Return the keys in a response.

    :raises TokenRequestError: it is an error, or none that can be used.
    """
    status = response.status
    if status != 200:
        what = "try again later" if status == 429 or status >= 500 else "check the role of the task or pod"
        if status in (401, 403):
            what = "check its authorization token, and the role of the task or pod"
        raise TokenRequestError(f"{ENDPOINT_NAME} answered {status}: {what}", status)
    if response.fields is None:
        raise TokenRequestError(
            f"{ENDPOINT_NAME} answered {status}, but its body is not a JSON object", status
        )
    try:
        return read_keys(response.fields, "Token", response.headers, wall)
    except ValueError as fault:
        raise TokenRequestError(f"{ENDPOINT_NAME} answered {status}, but {fault}", status) from None


def read_container_token(file: str) -> Secret:
    """Read the token for the endpoint as its file has it now; this blocks.

    :raises TokenRequestError: there is none, or the file cannot be read.
    """
    what = f"the file with the token for {ENDPOINT_NAME}"
    try:
        text = read_regular_file(file, MAX_TOKEN_FILE).decode("latin-1").strip()
    except OSError as error:
        failure = TokenRequestError(f"{what} cannot be read ({error.strerror}): check {FILE_VARIABLE}")
    else:
        if text and _is_header_value(text):
            return Secret(text)
        failure = TokenRequestError(f"{what} does not contain exactly one token")
    failure.detail = file
    raise failure


def _is_header_value(text: str) -> bool:
    return all("\x20" <= character <= "\x7e" for character in text)
