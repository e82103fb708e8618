"""What takes exactly as much as a limit of the clouds' modules allows (``tests/memory/test_limits.py``)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from struct import pack
from tempfile import TemporaryDirectory
from typing import Final
from zlib import crc32

from twisted.web.http_headers import Headers

from mgw.config.aws_profiles import read_profiles, read_shared_file
from mgw.config.load import parse
from mgw.credentials.aws.chain import find_key_source
from mgw.credentials.aws.obtained import read_keys
from mgw.credentials.aws.sts_response import read_texts
from mgw.nouns.errors import GatewayError
from mgw.upstream.refused_words import RefusedWords
from mgw.upstream.wires.bedrock_answers import BedrockCount, _message_in
from mgw.wire.event_stream import AmazonFrameReader

_PROVIDER: Final = "providers: {a: {kind: bedrock, auth: aws, aws: {region: us-east-1, profile: p1}}}"
_ROLE: Final = "arn:aws:iam::123456789012:role/r"
_COUNT: Final = b'{"inputTokens": 7'


def _is_done(action: Callable[[], object], refusal: type[Exception] = ValueError) -> bool:
    try:
        action()
    except refusal:
        return False
    return True


def _reads_file(size: int) -> bool:
    with TemporaryDirectory() as folder:
        path = Path(folder, "credentials")
        path.write_bytes(b"#" * size)
        return _is_done(lambda: read_shared_file(str(path)), OSError)


def _reads_header(size: int) -> bool:
    """Whether the section of a profile with a header of this size is one."""
    name = "p" * (size - len("profile "))
    files = {"/h/.aws/config": f"[profile {name}]\nregion = eu-west-1\n".encode()}
    return name in read_profiles({"HOME": "/h"}, files.get)


def _quotes_exception(size: int) -> bool:
    """Whether the message of an exception with a payload of this size is told."""
    payload = b'{"message":"%b"}' % (b"x" * (size - len(b'{"message":""}')))
    return _message_in(payload) is not None


def _follows_roles(count: int) -> bool:
    """Whether so many roles are assumed one by the other."""
    roles = [
        f"[profile p{number}]\nrole_arn = {_ROLE}{number}\nsource_profile = p{number + 1}\n"
        for number in range(1, count + 1)
    ]
    keys = f"[profile p{count + 1}]\naws_access_key_id = AKIDLAST\naws_secret_access_key = canary\n"
    files = {"/h/.aws/config": "".join([*roles, keys]).encode()}
    environ = {"HOME": "/h"}
    provider = parse(_PROVIDER, "mgw.yaml", environ, None, files.get).providers["a"]
    return _is_done(lambda: find_key_source(provider, environ, files.get))


def _reads_date(size: int) -> bool:
    date = "2026-11-28T00:00:00."
    fields = {
        "AccessKeyId": "ASIALIMITS",
        "SecretAccessKey": "canary",
        "Token": "canary",
        "Expiration": date + "0" * (size - len(date) - 1) + "Z",
    }
    return _is_done(lambda: read_keys(fields, "Token", Headers(), lambda: 0.0))


def _nests(depth: int) -> bool:
    return _is_done(lambda: read_texts(b"<a>" * depth + b"</a>" * depth))


def _reads_texts(count: int) -> bool:
    texts = b"".join(b"<e%d>x</e%d>" % (number, number) for number in range(count))
    return len(read_texts(b"<a>%b</a>" % texts)) == count


def _remembers_models(count: int) -> bool:
    words = RefusedWords()
    for number in range(count):
        words.note(f"m{number}", ["beta"], 0.0)
    return all(words.of(f"m{number}", 1.0) for number in range(count))


def _remembers_words(count: int) -> bool:
    words = RefusedWords()
    words.note("m", [f"b{number}" for number in range(count)], 0.0)
    return len(words.of("m", 1.0)) == count


def _reads_count(size: int) -> bool:
    count = BedrockCount()
    return _is_done(lambda: count.feed(_COUNT + b" " * (size - len(_COUNT) - 1) + b"}"), GatewayError)


def _takes_lengths(headers: int, payload: int) -> bool:
    """Whether a frame with such lengths may follow."""
    summed = pack(">II", 16 + headers + payload, headers)
    return _is_done(lambda: list(AmazonFrameReader().feed(summed + pack(">I", crc32(summed)))), GatewayError)


CLOUD_CASES: Final[dict[str, Callable[[int], bool]]] = {
    "mgw.config.aws_profiles.MAX_FILE_BYTES": _reads_file,
    "mgw.config.aws_profiles._MAX_HEADER": _reads_header,
    "mgw.credentials.aws.chain.MAX_CHAIN": _follows_roles,
    "mgw.credentials.aws.obtained._MAX_DATE": _reads_date,
    "mgw.credentials.aws.sts_response.MAX_DEPTH": _nests,
    "mgw.credentials.aws.sts_response._MAX_TEXTS": _reads_texts,
    "mgw.upstream.refused_words.MAX_MODELS": _remembers_models,
    "mgw.upstream.refused_words.MAX_WORDS": _remembers_words,
    "mgw.upstream.wires.bedrock_answers._MAX_COUNT": _reads_count,
    "mgw.upstream.wires.bedrock_answers._MAX_EXCEPTION": _quotes_exception,
    "mgw.wire.event_stream.MAX_HEADER_BYTES": lambda size: _takes_lengths(size, 0),
    "mgw.wire.event_stream.MAX_PAYLOAD_BYTES": lambda size: _takes_lengths(0, size),
}
"""Whether so much is taken, by the name of the limit."""
