"""What the vendors' documents have beside the methods of their SDKs: each method and path is served.

Walked for it: OpenAI's OpenAPI document (August 2026), the reference of Anthropic's Admin API and of its
older text completions, and the discovery document of Google's Generative Language API (v1beta).  What their
SDKs call is held by :mod:`tests.sockets.test_sdk_surface`.
"""

from __future__ import annotations

import pytest

from mgw.routing.match import RouteTable
from mgw.routing.route import Treatment
from mgw.routing.routes import ROUTES
from mgw.wire.headers import RawHeaders

FACTS = """
openai POST /v1/evals/e/runs/r
openai POST /v1/evals/e/runs/r/cancel
openai GET /v1/skills
openai POST /v1/skills
openai GET /v1/skills/s
openai POST /v1/skills/s
openai DELETE /v1/skills/s
openai GET /v1/skills/s/content
openai GET /v1/skills/s/versions
openai POST /v1/skills/s/versions
openai GET /v1/skills/s/versions/2
openai DELETE /v1/skills/s/versions/2
openai GET /v1/skills/s/versions/2/content
openai DELETE /v1/agents/a
anthropic POST /v1/complete
anthropic GET /v1/organizations/cost_report
anthropic GET /v1/organizations/usage_report/messages
anthropic GET /v1/organizations/usage_report/claude_code
gemini GET /v1beta/generatedFiles
gemini GET /v1beta/generatedFiles/g/operations/o
gemini POST /v1beta/models/aqa:generateAnswer
gemini POST /v1beta/tunedModels/t:batchGenerateContent
gemini POST /v1beta/tunedModels/t:asyncBatchEmbedContent
gemini POST /v1beta/tunedModels/t:streamGenerateContent
gemini GET /v1beta/corpora
gemini POST /v1beta/corpora
gemini GET /v1beta/corpora/c
gemini DELETE /v1beta/corpora/c
gemini POST /v1beta/corpora/c/permissions
gemini PATCH /v1beta/corpora/c/permissions/p
gemini POST /v1beta/files:register
gemini GET /v1beta/batches/b
gemini PATCH /v1beta/cachedContents/c
"""
SIGNS: dict[str, RawHeaders] = {
    "openai": [(b"OpenAI-Organization", b"org-1")],
    "anthropic": [(b"anthropic-version", b"2023-06-01")],
    "gemini": [(b"x-goog-api-client", b"any")],
}
TABLE = RouteTable(ROUTES)


@pytest.mark.parametrize("fact", FACTS.split("\n")[1:-1])
def test_a_method_of_a_document_is_relayed_to_its_family(fact: str) -> None:
    family, method, path = fact.split()
    found = TABLE.match(method, path, None, SIGNS[family])
    assert found.fault is None
    assert found.route.family.value == family
    assert found.route.treatment is not Treatment.REFUSE
