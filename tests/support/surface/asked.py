"""A request to a path of a vendor's, and how tables of them are read.

In a table, a line is a method, a path and a body, which goes on in the lines below that begin with a blank.
``MODEL`` stands where a request names its model: a bare one, an alias or one with a prefix.  A body that
writes none does so because the vendor's has none there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tests.support.grid import ANTHROPIC, BOUNDARY, COMPAT, FORM_TYPE, GEMINI, JSON_TYPE, OPENAI

SECOND: Final = {OPENAI: COMPAT, ANTHROPIC: f"other_{ANTHROPIC}", GEMINI: f"other_{GEMINI}"}
"""By family: the provider that is not its default, as :mod:`tests.support.deployment` names it."""
ALIAS: Final = {family: f"known-to-{family}" for family in SECOND}
"""By family: an alias of a model of that provider."""
ALIASES: Final = "aliases:\n" + "".join(f"  {ALIAS[family]}: {SECOND[family]}/m-1\n" for family in SECOND)

SIGNED: Final = ("anthropic-version: 2023-06-01",)
GOOGLES: Final = ("x-goog-api-client: genai-sdk/3",)

PLAIN: Final = b'{ "name":"H\\u0069", "n" : 1.0e0,\n\t"n":2, "metadata": {"model":"known-to-openai"} }'
"""What is sent where a line has no body, and a method takes one: nothing in it names a model."""
FILE: Final = ('"file"; filename="a.bin"', b'\x00\xff--not the boundary\r\n"model":"known-to-openai"')
"""A part of a form whose bytes look like what they are not."""


@dataclass(frozen=True)
class Asked:
    """One request, and where it belongs."""

    family: str
    method: str
    path: str
    """With its query; Gemini's under ``/v1beta``, though each is served under three versions."""
    body: bytes = b""
    headers: tuple[str, ...] = ()
    modality: str = "platform"
    tells: bool = False
    """Whether the answer tells the tokens that this very request took."""
    chooses: bool = True
    """Whether its model chooses the provider; those of a batch do not."""

    @property
    def name(self) -> str:
        """What tests call it."""
        signs = " ".join(header.partition(":")[0] for header in self.headers)
        return f"{self.family} {self.method} {self.path} {signs}".strip()

    @property
    def names_model(self) -> bool:
        """Whether it names a model."""
        return "MODEL" in self.path or b"MODEL" in self.body

    def naming(self, model: str) -> Asked:
        """The same request for a model."""
        body = self.body.replace(b"MODEL", model.encode())
        return replace(self, path=self.path.replace("MODEL", model), body=body)

    def choosing(self, provider: str) -> Asked:
        """The same request, which says in a header which provider it means."""
        return replace(self, headers=(*self.headers, f"X-Provider: {provider}"))

    def in_version(self, version: str) -> Asked:
        """The same request under another version of Gemini's, as Google's SDK sends it."""
        path = self.path.replace("/v1beta/", f"/{version}/", 1)
        return replace(self, path=path, headers=(*self.headers, *GOOGLES))

    def request(self, key: str) -> bytes:
        """The request in HTTP, with a key of the gateway's."""
        head = [f"{self.method} {self.path} HTTP/1.1", "Host: gateway", f"Authorization: Bearer {key}"]
        head += self.headers
        if self.body:
            if not any(header.startswith("Content-Type") for header in self.headers):
                head.append(f"Content-Type: {FORM_TYPE if self.body.startswith(b'--') else JSON_TYPE}")
            head.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join([*head, "", ""]).encode() + self.body


def read(
    family: str, table: str, *signs: str, modality: str = "platform", tells: bool = False
) -> Iterator[Asked]:
    """Yield what a table says.

    :param signs: headers of each request.
    """
    for line in re.split(r"\n(?=\S)", table.strip()):
        method, path, *rest = line.split(None, 2)
        plain = PLAIN if method in ("POST", "PATCH", "PUT") else b""
        yield Asked(family, method, path, rest[0].encode() if rest else plain, signs, modality, tells)


def form(family: str, path: str, *parts: tuple[str, bytes]) -> Asked:
    """Return a request with a form; a part is what stands behind ``name=``, and a value."""
    pieces = [f"--{BOUNDARY}\r\nContent-Disposition: form-data; name={name}\r\n\r\n" for name, _ in parts]
    whole = b"".join(head.encode() + value + b"\r\n" for head, (_, value) in zip(pieces, parts, strict=True))
    return Asked(family, "POST", path, whole + f"--{BOUNDARY}--\r\n".encode())
