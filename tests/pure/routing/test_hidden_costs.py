"""Routes that start work at a cost that no response reports, by their column."""

from __future__ import annotations

from typing import Final

import pytest

from mgw.nouns.vocabulary import Modality
from mgw.routing.route import Route, Treatment
from mgw.routing.routes import ROUTES

JOBS: Final = (
    *("batches_create", "fine_tuning_jobs_create", "fine_tuning_alpha_graders_run"),
    *(
        "evals_create",
        "evals_runs_create",
        "videos_create",
        "videos_edits",
        "videos_extensions",
        "videos_remix",
    ),
    *("threads_runs", "threads_runs_create", "threads_runs_submit_tool_outputs"),
    *("agents_sessions_create", "agents_sessions_events_create", "agents_automations_invocations_create"),
    *("agents_automations_create", "agents_automations_resume", "gemini_triggers_patch"),
    *("anthropic_messages_batches_create", "anthropic_sessions_create", "anthropic_sessions_events_create"),
    *("anthropic_dreams_create", "anthropic_deployments_run", "complete"),
    *("gemini_models_batch_generate_content", "gemini_models_async_batch_embed_content"),
    *(
        "gemini_models_predict_long_running",
        "gemini_tuned_models_create",
        "gemini_triggers_executions_create",
    ),
    *("realtime_calls_create", "realtime_client_secrets", "gemini_auth_tokens", "live_sessions_create"),
)
BY_NAME: Final = {route.name: route for route in ROUTES}


def test_the_jobs_that_the_vendors_have_are_marked() -> None:
    unknown = [name for name in JOBS if name not in BY_NAME]
    assert not unknown
    assert [name for name in JOBS if not BY_NAME[name].hides_cost] == []


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.name} {route.method}")
def test_a_marked_route_changes_something_and_no_other_text_route_hides_what_it_costs(route: Route) -> None:
    if route.hides_cost:
        assert route.method in ("POST", "PATCH")
        assert route.treatment is Treatment.RELAY
        return
    asks_model = route.modality not in (Modality.PLATFORM, Modality.REALTIME)
    if asks_model and route.method == "POST":
        assert route.metered or route.treatment is Treatment.COUNT
