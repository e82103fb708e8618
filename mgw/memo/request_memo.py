"""The one memory of requests: what makes the next request cheaper than the first that was like it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from msgspec.structs import replace

from mgw.clients.client import Client
from mgw.http.head_key import HeadKey, RepeatedHead
from mgw.http.head_shape import HeadShapes
from mgw.http.request_head import HTTP_1_0
from mgw.memo.client_request import ClientRequest
from mgw.memo.known_head import CHECKED_EACH_TIME, KnownHead
from mgw.memo.known_target import KnownTarget, SentLines, UpstreamHead
from mgw.nouns.vocabulary import Modality
from mgw.routing.resolve import Target
from mgw.routing.route import Route
from mgw.usage.labels import MAX_SHARED_CHARS, ExchangeLabels, labels_of

MAX_HEADS: Final = 512
MAX_KEYS_BYTES: Final = 512 * 1024
"""How long the keys of all heads may be together.  What is known of a head is several times as long, and
so is what is sent for it and for each of a few models: thirty megabytes at the most, with short lines."""
MAX_SEEN: Final = 4096
"""How many heads are remembered as seen once."""
MAX_MODELS: Final = 8
"""The most models, and translated heads, for which it is remembered what is sent for one head."""
MAX_MODEL_CHARS: Final = 256
MAX_PATH_BYTES: Final = 1024
MAX_TARGETS: Final = 512
"""The most targets: with all that is sent there, which may be long, they take at most 45 megabytes."""
MAX_SENT: Final = 8
"""How many heads are kept for each target: the lines of one client and one library are nearly always the
same."""
MAX_SENT_BYTES: Final = 2048
MAX_SENT_LINES: Final = 32
"""How many lines a head may have to be kept with a target: a line takes about 130 bytes, however short it is,
and SDKs send about fifteen that go upstream."""
MAX_LABELS: Final = 512
"""How many labels are kept for exchanges to come: a client can make up any number of models."""

TargetKey = tuple[str, bytes, bytes | None, str | None]
"""The route's name, the raw path, the query without the gateway's credentials, and the model asked for."""
LabelsKey = tuple[str, str | None, str | None, str | None, str | None, Client | None]
"""The route's name, the provider, the model asked for, the upstream model, the key's hash, and the client."""
TranslatedKey = tuple[str, bytes, tuple[tuple[bytes, bytes], ...], bytes]
"""The provider's name, the rendered target, the rendered headers, and what is accepted."""

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True, eq=False, repr=False)  # headers hold credentials
class HeadFindings:
    """What was found while requests with one known head were served."""

    relayed: dict[str | None, tuple[KnownTarget, UpstreamHead]] = field(default_factory=dict)
    """Where requests go and what is sent for the head, by the model that is asked for."""
    translated: dict[TranslatedKey, UpstreamHead] = field(default_factory=dict)
    """What is sent for the head to providers of other families."""
    is_unambiguous: bool = False
    """Whether no provider finds a model in the head where the gateway finds none."""


@dataclass(slots=True, repr=False, eq=False)
class RequestMemo:
    """Everything that is remembered of earlier requests.

    Nothing in it decides anything: it holds what the ordinary functions found, under keys that determine what
    they would find again, so that without it every request gets the same answer, later.  A test plays drawn
    requests with the memory and without, and compares every byte.

    Each generation has one.  So whatever follows from the configuration (routes, keys, limits, aliases,
    providers, prices) needs no place in a key: **a reload forgets everything** (:meth:`close`), though
    requests that began before it may go on with their generation for hours.

    What is kept, under which key, and how much of it; where there is no more room, the oldest makes room:

    ``heads``
        A client's head that was checked, matched with a route and let in, under its bytes without the length
        and without the values that vary (:mod:`mgw.http.head_key`).  It is kept when it comes for the second
        time; :data:`MAX_HEADS`, with :data:`MAX_KEYS_BYTES` of keys.  :data:`MAX_SEEN` hashes of heads that
        came once are kept, and all forgotten when there are more.
    ``findings``
        Under a number that the head gets as it is kept, and forgotten with it: what is sent for it, for
        :data:`MAX_MODELS` models and as many translations, and whether it is unambiguous for clients that may
        use some models only.  The first ones stay: clients may invent models.  A head that is kept anew gets
        another number: what requests still find that came before it was forgotten may hold a key.
    ``targets``
        Where requests go, under route, path, query and model (:data:`TargetKey`): heads that never came
        before have these in common, and sessions, whose heads hold a random key.  Not where a header has a
        say in it (platform rows, content codings), nor where model or path are long; :data:`MAX_TARGETS`.  A
        bare :class:`~mgw.routing.resolve.Target` means that the request is translated.  Clients share them,
        so what one may use is checked each time.
    ``sent``
        With each target, and forgotten with it, the heads that are sent there, under the client's lines in
        them: :data:`MAX_SENT`, of at most :data:`MAX_SENT_LINES` and :data:`MAX_SENT_BYTES`.
    ``shapes``
        The shapes of the heads that each provider answers with, by its name
        (:class:`~mgw.http.head_shape.HeadShapes` says how many).
    ``labels``
        What usage events say of a route, a target, a credential's hash and a client, under these:
        :data:`MAX_LABELS`.  The labels hold their own texts for the log and their price.

    What is forgotten before a reload:

    - **A key that changes**: whatever adds, changes or ends one without a reload, or learns of a key that
      must not go upstream any more, calls :meth:`forget_heads`.
    - **A credential that is renewed**, or one of another caller's own:
      :class:`~mgw.memo.known_target.UpstreamHead` holds the bytes made with one credential object, and
      whoever has another one makes them anew.
    - **Expiry**: a head carries the moment at which it must be checked again
      (:attr:`~mgw.memo.known_head.Caller.known_until`); from then on it is forgotten when it is looked up.
      A token that is checked each time makes its head one that is never kept.

    Deliberately outside, since nothing can make them untrue: caches of pure functions (``lru_cache`` in
    :mod:`mgw.wire`, :mod:`mgw.dialects`, and the rendered methods and paths in :mod:`mgw.ops`), what one
    connection expects next, and the shapes of responses to our own requests, which no client sent.
    """

    is_on: bool = True
    """Whether anything is kept: not behind :meth:`close`, nor where a test compares."""
    find_head: Callable[[bytes], KnownHead | None] = field(init=False)
    """Returns a head by its key; whether its moment has passed is for the caller to look at."""
    heads: dict[bytes, KnownHead] = field(default_factory=dict)
    findings: dict[int, HeadFindings] = field(default_factory=dict)
    targets: dict[TargetKey, KnownTarget | Target] = field(default_factory=dict)
    sent: dict[KnownTarget, dict[SentLines, UpstreamHead]] = field(default_factory=dict)
    shapes: dict[str, HeadShapes] = field(default_factory=dict)
    labels: dict[LabelsKey, ExchangeLabels] = field(default_factory=dict)
    _seen: set[int] = field(default_factory=set)
    _keys_bytes: int = 0
    """How long the keys of all heads are together."""
    _numbers: int = 0
    """How many heads have been kept so far."""

    def __post_init__(self) -> None:
        self.find_head = self.heads.get  # the dictionary's own: one call less for every request

    def keep_head(self, head_key: HeadKey, known: KnownHead) -> None:
        """Remember a head that comes for the second time, and may be known.

        :param known: found without anything that holds for this one request alone, but for the values that
            ``head_key`` names.
        """
        head, request, key, values = known.head, known.client_request, head_key[0], head_key[3]
        if not self.is_on or known.caller.known_until == CHECKED_EACH_TIME or head.version == HTTP_1_0:
            return
        if head.upgrade is not None or head.expects_continue:
            return
        varying = request.indices_of(values) if values else ()
        if varying is None:
            return
        seen = hash(key)
        if seen not in self._seen:
            if len(self._seen) >= MAX_SEEN:
                self._seen.clear()
            self._seen.add(seen)
            return
        self.forget_head(key)
        self._keys_bytes += len(key)
        while len(self.heads) >= MAX_HEADS or (self.heads and self._keys_bytes > MAX_KEYS_BYTES):
            self.forget_head(next(iter(self.heads)))
        self._numbers = number = self._numbers + 1
        request = replace(request, varying=varying, values=values, head_number=number)
        self.heads[key] = replace(known, client_request=request, repeated=RepeatedHead.of_key(key))
        self.findings[number] = HeadFindings()

    def forget_head(self, key: bytes) -> None:
        """Forget a head, and what was found while its requests were served."""
        known = self.heads.pop(key, None)
        if known is not None:
            del self.findings[known.client_request.head_number]
            self._keys_bytes -= len(key)

    def forget_heads(self) -> None:
        """Forget all heads: who may come in has changed, or what of a head may go upstream."""
        self.heads.clear()
        self.findings.clear()
        self._seen.clear()
        self._keys_bytes = 0

    def close(self) -> None:
        """Forget everything, and keep nothing more: no request comes any more that could use it."""
        self.is_on = False
        self.forget_heads()
        self.targets.clear()
        self.sent.clear()
        self.shapes.clear()  # connections that are still open have theirs
        self.labels.clear()

    def keep_relayed(
        self, request: ClientRequest, model: str | None, known: KnownTarget, sent: UpstreamHead
    ) -> None:
        """Remember what is sent for the head of a request and a model, for a few of them."""
        findings = self.findings.get(request.head_number)
        short = model is None or len(model) <= MAX_MODEL_CHARS
        if findings is not None and short and len(findings.relayed) < MAX_MODELS:
            findings.relayed[model] = known, sent

    def keep_translated(self, request: ClientRequest, key: TranslatedKey, sent: UpstreamHead) -> None:
        """Remember a head that is sent for a translated request, for a few of them."""
        findings = self.findings.get(request.head_number)
        short = len(sent.upstream_target) <= MAX_MODEL_CHARS
        if findings is not None and short and len(findings.translated) < MAX_MODELS:
            findings.translated[key] = sent

    def find_target(
        self, route: Route, request: ClientRequest, model: str | None
    ) -> KnownTarget | Target | None:
        """Return where requests like this one go; a bare target means that they are translated."""
        return self.targets.get((route.name, request.raw_path, request.raw_query, model))

    def keep_target(self, route: Route, request: ClientRequest, found: KnownTarget | Target) -> None:
        """Remember where requests like this one go, if their headers have no say in it."""
        target = found.target if isinstance(found, KnownTarget) else found
        model, path, query = target.asked_model, request.raw_path, request.raw_query
        if not self.is_on or model is None or route.modality is Modality.PLATFORM or not request.is_uncoded:
            return
        if len(model) > MAX_MODEL_CHARS or len(path) + len(query or b"") > MAX_PATH_BYTES:
            return
        key = route.name, path, query, model
        if key in self.targets:
            return
        if len(self.targets) >= MAX_TARGETS:
            self._forget_target(next(iter(self.targets)))
        self.targets[key] = found
        if isinstance(found, KnownTarget):
            self.sent[found] = {}

    def _forget_target(self, key: TargetKey) -> None:
        found = self.targets.pop(key)
        if isinstance(found, KnownTarget):
            del self.sent[found]

    def keep_sent(self, known: KnownTarget, lines: SentLines, head: UpstreamHead) -> None:
        """Remember a head that goes to a target, if that is kept and the head is of a usual size."""
        sent = self.sent.get(known)
        if sent is None or len(lines) > MAX_SENT_LINES:
            return
        if sum([len(name) + len(value) for name, value in lines]) > MAX_SENT_BYTES:
            return
        _make_room(sent, MAX_SENT)
        sent[lines] = head

    def shapes_of(self, provider: str) -> HeadShapes:
        """Return the shapes of the heads that a provider answers with."""
        if not self.is_on:
            return HeadShapes(max_shapes=0)
        return self.shapes.setdefault(provider, HeadShapes())

    def labels_for(
        self,
        route: Route,
        target: Target | None,
        model: str | None,
        key_hash: str | None,
        client: Client | None,
    ) -> ExchangeLabels:
        """Return the labels of these values, which exchanges share while they are kept.

        :param model: as the client asked for it.
        """
        if target is None:
            key: LabelsKey = route.name, None, model, None, key_hash, client
        else:
            key = route.name, target.provider_name, model, target.upstream_model, key_hash, client
        labels = self.labels.get(key)
        return labels or self._keep_labels(key, labels_of(route, *key[1:]))

    def _keep_labels(self, key: LabelsKey, labels: ExchangeLabels) -> ExchangeLabels:
        if self.is_on and len(key[2] or "") <= MAX_SHARED_CHARS:
            _make_room(self.labels, MAX_LABELS)
            self.labels[key] = labels
        return labels


def _make_room(table: dict[K, V], most: int) -> None:
    """Forget the oldest where there is no room for one more."""
    if len(table) >= most:
        del table[next(iter(table))]
