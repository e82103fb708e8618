"""Identity providers of the simulator in memory; their tokens are verified with code of its own."""

from __future__ import annotations

import base64
import json
from typing import Any, Final
from urllib.parse import urlencode

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512
from twisted.internet.task import Clock

from mgw_sim.api import UnaryResponse
from mgw_sim.dispatcher import Dispatcher
from mgw_sim.faults import Faults
from mgw_sim.http.parser import Head
from mgw_sim.recording import RecordedRequest, Recorder
from tests.memory.mgw_sim.client import result_of

NOW: Final = 1_800_000_000
ISSUER: Final = "http://sim:1/sim/idp/corp"
HASHES: Final = {"256": SHA256(), "384": SHA384(), "512": SHA512()}
CURVES: Final = {"P-256": (ec.SECP256R1(), 32), "P-384": (ec.SECP384R1(), 48), "P-521": (ec.SECP521R1(), 66)}


class IdpInMemory:
    """The dispatcher of a simulator, asked as by clients of one provider and by tests."""

    def __init__(self, name: str = "corp") -> None:
        self.now = float(NOW)
        self.root = f"/sim/idp/{name}"
        self.clock = Clock()
        self.recorder = Recorder()
        self.dispatcher = Dispatcher(self.clock, self.recorder, lambda: self.now)

    def ask(
        self, method: str, target: str, body: bytes = b"", **headers: str
    ) -> tuple[UnaryResponse, Faults]:
        """What is answered at a target, and what goes wrong on the way."""
        given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        head = Head(method.encode(), target.encode(), b"HTTP/1.1", ((b"host", b"sim:1"), *given))
        request = RecordedRequest(1, 1, head, bytearray(body), complete=True)
        answer, faults = result_of(self.dispatcher.answer(request))
        assert isinstance(answer, UnaryResponse)
        return answer, faults

    def get(self, path: str) -> Any:
        """The JSON that a client gets."""
        answer, _ = self.ask("GET", f"{self.root}/{path}")
        assert answer.status == 200, answer
        return json.loads(answer.body)

    def post(self, path: str, value: object) -> tuple[int, Any]:
        """Status and JSON of what a test posts."""
        body = json.dumps(value).encode()
        answer, _ = self.ask("POST", f"{self.root}/{path}", body, content_type="application/json")
        return answer.status, json.loads(answer.body)

    def token(self, **wanted: object) -> str:
        """A token by the members of the request for it."""
        status, said = self.post("token", wanted)
        assert status == 200, said
        return str(said["token"])

    def set_state(self, state: str, **more: object) -> Any:
        """Put the provider into a state; what it then says of itself."""
        status, said = self.post("state", {"state": state, **more})
        assert status == 200, said
        return said

    def exchange(self, basic: str | None = None, **form: str) -> tuple[int, Any]:
        """Status and JSON of an answer to a form."""
        more = {}
        if basic is not None:
            more["authorization"] = "Basic " + base64.b64encode(basic.encode()).decode()
        kind = "application/x-www-form-urlencoded"
        answer, _ = self.ask(
            "POST", f"{self.root}/token", urlencode(form).encode(), content_type=kind, **more
        )
        return answer.status, json.loads(answer.body)


def decoded(part: str) -> bytes:
    """A part of a token, which has no padding."""
    assert "=" not in part
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def parts_of(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims."""
    header, claims, _ = token.split(".")
    return json.loads(decoded(header)), json.loads(decoded(claims))


def verify(token: str, jwk: dict[str, str]) -> None:
    """Raise InvalidSignature unless a key has signed a token by the algorithm that its header names."""
    signed, _, last = token.rpartition(".")
    signature, data, algorithm = decoded(last), signed.encode(), parts_of(token)[0]["alg"]
    number = {name: int.from_bytes(decoded(jwk[name])) for name in ("n", "e", "x", "y") if name in jwk}
    if jwk["kty"] == "OKP":
        assert algorithm in {"EdDSA", "Ed25519"}
        ed25519.Ed25519PublicKey.from_public_bytes(decoded(jwk["x"])).verify(signature, data)
        return
    hashing = HASHES[algorithm[2:]]
    if jwk["kty"] == "RSA":
        pss = padding.PSS(padding.MGF1(hashing), hashing.digest_size)
        scheme = padding.PKCS1v15() if algorithm.startswith("RS") else pss
        rsa.RSAPublicNumbers(number["e"], number["n"]).public_key().verify(signature, data, scheme, hashing)
        return
    curve, size = CURVES[jwk["crv"]]
    assert len(signature) == 2 * size
    assert len(decoded(jwk["x"])) == len(decoded(jwk["y"])) == size
    der = encode_dss_signature(int.from_bytes(signature[:size]), int.from_bytes(signature[size:]))
    public = ec.EllipticCurvePublicNumbers(number["x"], number["y"], curve).public_key()
    public.verify(der, data, ec.ECDSA(hashing))
