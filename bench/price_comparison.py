"""Compare costs with LiteLLM's: ``python -m bench.price_comparison [--seed N] [--count N]``.

LiteLLM's own price list is imported as ``mgw prices import`` does it, and drawn usages of its models are
priced by both: here by the imported row, there by ``litellm.cost_per_token`` (``completion_cost`` for web
searches).  Each difference is listed with its reason; one that has no known reason makes the command fail.

It requires an environment with both packages.  LiteLLM also prints a list of providers now and then.
"""
# mypy: disable-error-code="import-not-found,no-untyped-call"

from __future__ import annotations

import argparse
import os
import random
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from platform import machine, python_version
from typing import Any, Final, NamedTuple

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # before the import: it would fetch a list of prices

import litellm
from litellm.types.utils import ModelResponse, Usage

from mgw.canonical.reply import TokenUsage, UsageParts
from mgw.config.load import parse_prices
from mgw.nouns.vocabulary import Modality
from mgw.usage.price_import.entry import PricedModel
from mgw.usage.price_import.json_document import Json, read_document
from mgw.usage.price_import.litellm import read_models
from mgw.usage.price_import.price_file import write_price_file
from mgw.usage.price_import.selection import select
from mgw.usage.price_row import Quantities
from mgw.usage.prices import PriceTable

SEED: Final = 20261128
COUNT: Final = 500
LIST: Final = Path(litellm.__file__).with_name("model_prices_and_context_window_backup.json")
MODES: Final = frozenset({"chat", "completion", "responses", "embedding", "realtime"})
NANO: Final = 10**9
UNKNOWN: Final = "unknown"
SERVICE_TIERS: Final = ("flex", "priority", "balanced", "ultrafast")
"""Those that ``cost_per_token`` takes; batches have a call of their own."""


class Draw(NamedTuple):
    """A usage of a model."""

    subject: str
    entry: PricedModel
    counts: Counter[str]
    """Tokens by kind: those of the cache, audio and images beside ``input``, reasoning beside ``output``."""
    service: str | None = None
    geo: str | None = None

    @property
    def tokens_in(self) -> int:
        """Return all tokens of the input."""
        return self.counts.total() - self.tokens_out - self.counts["searches"]

    @property
    def tokens_out(self) -> int:
        """Return all tokens of the output."""
        return sum(self.counts[kind] for kind in OUTPUT)


OUTPUT: Final = ("output", "reasoning", "out_audio")


class Difference(NamedTuple):
    """A usage of which the costs differ."""

    draw: Draw
    ours: int | None
    theirs: Fraction
    reason: str


def main() -> None:
    """Compare, and print a table."""
    parser = argparse.ArgumentParser(prog="price_comparison", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=SEED, help="default: %(default)s")
    parser.add_argument("--count", type=int, default=COUNT, help="usages (default: %(default)s)")
    options = parser.parse_args()
    document = read_document(LIST.read_bytes())
    models = [entry for entry in read_models(document) if is_comparable(entry, document)]
    drawn = draw_usages(random.Random(options.seed), models, options.count)
    found = [difference for draw in drawn if (difference := compare(draw, document)) is not None]
    print(f"litellm {version('litellm')}, {len(models)} models; CPython {python_version()}, {machine()}")
    print(f"seed {options.seed}: {len(drawn)} usages, {len(drawn) - len(found)} of them cost the same\n")
    for reason, count in sorted(Counter(one.reason for one in found).items()):
        print(f"{reason}: {count}")
        for line in sorted(line_of(one) for one in found if one.reason == reason):
            print(line)
    if any(one.reason == UNKNOWN for one in found):
        raise SystemExit(1)


def is_comparable(entry: PricedModel, document: Mapping[str, Json]) -> bool:
    """Whether a model is sold by the token, under its own name."""
    facts = document[entry.key]
    return isinstance(facts, dict) and facts.get("mode") in MODES and "input" in entry.usual.prices


def draw_usages(source: random.Random, models: list[PricedModel], count: int) -> list[Draw]:
    """Return usages of each subject in turn, for models that have prices for it."""
    able = {subject: [entry for entry in models if fits(entry)] for subject, (fits, _) in SUBJECTS.items()}
    found: list[Draw] = []
    while len(found) < count:
        for subject, (_, fill) in SUBJECTS.items():
            entry = source.choice(able[subject])
            counts = Counter(input=source.randint(1, 20_000))
            if entry.usual.prices.get("output"):
                counts["output"] = source.randint(1, 4_000)
            found.append(fill(Draw(subject, entry, counts), source))
    return found[:count]


def has_price(*names: str) -> Callable[[PricedModel], bool]:
    """Ask whether a model has prices of its own."""
    return lambda entry: all(name in entry.usual.prices for name in names)


def more(*kinds: str) -> Callable[[Draw, random.Random], Draw]:
    """Add tokens of some kinds."""

    def fill(draw: Draw, source: random.Random) -> Draw:
        draw.counts.update({kind: source.randint(1, 10_000) for kind in kinds})
        return draw

    return fill


def go_above(draw: Draw, source: random.Random) -> Draw:
    """Ask for more tokens than one of the model's thresholds."""
    threshold = source.choice(sorted(draw.entry.usual.above))
    draw.counts["input"] = threshold + source.choice([0, 1, 5_000])
    if "cache_read" in draw.entry.usual.prices:
        draw.counts["cache_read"] = 1000
        draw.counts["input"] -= 1000
    return draw


def serve(draw: Draw, source: random.Random) -> Draw:
    """Have one of the model's service tiers serve it, at times above a threshold."""
    names = sorted(set(SERVICE_TIERS) & draw.entry.services.keys())
    if draw.entry.usual.above and source.random() < 0.3:
        go_above(draw, source)
    return draw._replace(service=source.choice(names))


def batch(draw: Draw, source: random.Random) -> Draw:
    """Have it served in a batch, at times above a threshold."""
    if draw.entry.usual.above and source.random() < 0.3:
        go_above(draw, source)
    return draw._replace(service="batch")


def run_fast(draw: Draw, source: random.Random) -> Draw:
    """Have it served in Anthropic's fast mode."""
    draw.counts["cache_read"] = source.randint(1, 1000)
    return draw._replace(service="fast")


def place(draw: Draw, source: random.Random) -> Draw:
    """Have the model run in a place that has a factor."""
    draw.counts["cache_write"] = source.randint(1, 1000)
    return draw._replace(geo=source.choice(sorted(draw.entry.geo)))


def search(draw: Draw, source: random.Random) -> Draw:
    """Have the provider search the web."""
    draw.counts["searches"] = source.randint(1, 5)
    return draw


SUBJECTS: Final[dict[str, tuple[Callable[[PricedModel], bool], Callable[[Draw, random.Random], Draw]]]] = {
    "text": (has_price("input"), more()),
    "cached": (has_price("cache_read"), more("cache_read")),
    "cache write": (has_price("cache_write"), more("cache_read", "cache_write")),
    "cache write, 1 h": (has_price("cache_write_1h"), more("cache_write", "cache_write_1h")),
    "cache write, 12 h": (has_price("cache_write_12h"), more("cache_write", "cache_write_12h")),
    "audio": (has_price("input_audio", "output"), more("audio")),
    "audio answer": (has_price("output_audio"), more("audio", "out_audio")),
    "cached audio": (has_price("cache_read_audio"), more("audio", "cache_read", "cached_audio")),
    "images": (has_price("input_image", "output"), more("image")),
    "reasoning": (lambda entry: bool(entry.usual.prices.get("output")), more("reasoning")),
    "long input": (lambda entry: bool(entry.usual.above), go_above),
    "service tier": (lambda entry: not entry.services.keys().isdisjoint(SERVICE_TIERS), serve),
    "batch": (lambda entry: "batch" in entry.services, batch),
    "fast": (lambda entry: "fast" in entry.services and entry.provider == "anthropic", run_fast),
    "place": (lambda entry: bool(entry.geo) and entry.provider == "anthropic", place),
    "searches": (lambda entry: "per_search" in entry.usual.prices and entry.provider == "anthropic", search),
}
"""What is drawn: which models it is drawn for, and how."""


def compare(draw: Draw, document: Mapping[str, Json]) -> Difference | None:
    """Price a usage twice."""
    table = PriceTable(parse_prices(write_price_file(select([draw.entry], (), ()), ()), "list", None))
    ours = table.estimate("any", draw.entry.model, Modality.TEXT, Quantities(our_usage(draw)), 0.0)
    theirs = Fraction(their_cost(draw)) * NANO
    if ours is not None and abs(ours - theirs) <= Fraction(1, 2):
        return None
    return Difference(draw, ours, theirs, reason_for(draw, ours, theirs, document))


def our_usage(draw: Draw) -> TokenUsage:
    """Return what a provider tells of it, as the gateway keeps it."""
    counts = draw.counts
    return TokenUsage(
        draw.tokens_in,
        draw.tokens_out,
        counts["cache_read"] + counts["cached_audio"],
        counts["cache_write"] + counts["cache_write_1h"] + counts["cache_write_12h"],
        counts["reasoning"],
        parts=UsageParts(
            cache_write_1h=counts["cache_write_1h"],
            cache_write_12h=counts["cache_write_12h"],
            audio_in=counts["audio"] + counts["cached_audio"],
            image_in=counts["image"],
            cached_audio=counts["cached_audio"],
            audio_out=counts["out_audio"],
            searches=counts["searches"],
            inference_geo=draw.geo,
        ),
        service_tier=draw.service,
    )


def their_cost(draw: Draw) -> float:
    """Return LiteLLM's cost in US dollars."""
    counts = draw.counts
    written = {
        "ephemeral_5m_input_tokens": counts["cache_write"],
        "ephemeral_1h_input_tokens": counts["cache_write_1h"],
        "ephemeral_12h_input_tokens": counts["cache_write_12h"],
    }
    usage: Any = Usage(  # Any: LiteLLM adds fields
        prompt_tokens=draw.tokens_in,
        completion_tokens=draw.tokens_out,
        total_tokens=draw.tokens_in + draw.tokens_out,
        prompt_tokens_details={
            "text_tokens": counts["input"],
            "audio_tokens": counts["audio"] + counts["cached_audio"],
            "image_tokens": counts["image"],
            "cached_tokens": counts["cache_read"] + counts["cached_audio"],
            "cached_tokens_details": {"audio_tokens": counts["cached_audio"]},
            "cache_creation_tokens": sum(written.values()),
            "cache_creation_token_details": written if any(written.values()) else None,
        },
        completion_tokens_details={
            "text_tokens": counts["output"],
            "reasoning_tokens": counts["reasoning"],
            "audio_tokens": counts["out_audio"],
        },
        **({"inference_geo": draw.geo} if draw.geo else {}),
        **({"speed": "fast"} if draw.service == "fast" else {}),
        **({"server_tool_use": {"web_search_requests": counts["searches"]}} if counts["searches"] else {}),
    )
    provider = provider_of(draw.entry)
    service = draw.service if draw.service not in ("fast", "batch") else None
    if counts["searches"]:
        answer = ModelResponse(model=draw.entry.model, usage=usage)
        return float(litellm.completion_cost(answer, draw.entry.model, custom_llm_provider=provider))
    costs = litellm.cost_per_token(
        model=draw.entry.key,
        custom_llm_provider=provider,
        usage_object=usage,
        service_tier=service,
        call_type="aretrieve_batch" if draw.service == "batch" else "completion",
    )
    return float(sum(costs))


def provider_of(entry: PricedModel) -> str:
    """Return what LiteLLM's functions call a provider of its list."""
    family, _, _ = entry.provider.partition("-")
    return family if family in ("vertex_ai", "fireworks_ai") else entry.provider


def reason_for(draw: Draw, ours: int | None, theirs: Fraction, document: Mapping[str, Json]) -> str:
    """Return why the costs differ, or :data:`UNKNOWN`."""
    entry, service = draw.entry, draw.service
    own = entry.services.get(service or "")
    if ours is not None and abs(ours - theirs) < 1:
        return "LiteLLM: half a nanodollar is a little less as a float"
    if "off_peak_pricing" in entry.unplaced:
        return "mgw: a row has no hours of the day; the import names it"
    prefix = f"{provider_of(entry)}/"
    if prefix + entry.key in document or (entry.model.startswith(prefix) and entry.model in document):
        return "LiteLLM: it looks up another entry, with or without the provider before the model"
    if ours is None and entry.usual.above and own is not None and not own.above:
        return "LiteLLM: it guesses a price of a service tier above a threshold, where the list has none"
    if service == "batch" and own is not None and not {"input", "output"} <= own.prices.keys():
        return "LiteLLM: it guesses that a batch costs half, where the list says nothing"
    if entry.provider == "perplexity" and (entry.usual.above or draw.counts["cache_write"]):
        return "LiteLLM: it ignores thresholds and cache writes of Perplexity"
    if provider_of(entry) == "fireworks_ai" and service is not None:
        return "LiteLLM: it ignores service tiers of Fireworks"
    return UNKNOWN


def line_of(difference: Difference) -> str:
    """Describe a difference in a line."""
    draw, ours = difference.draw, difference.ours
    mine = "none" if ours is None else f"{Decimal(ours).scaleb(-9):f}"
    counts = ", ".join(f"{kind} {count}" for kind, count in draw.counts.items() if count)
    served = f", served by {draw.service}" if draw.service else ""
    theirs = f"{float(difference.theirs / NANO):.12f}"
    return f"  {draw.subject}: {draw.entry.key}: {counts}{served}: mgw {mine}, LiteLLM {theirs}"


if __name__ == "__main__":
    main()
