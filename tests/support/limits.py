"""Where each constant ``MAX_...`` is tried from both sides; ``tests/memory/test_limits.py`` has the others.

A new constant gets a case there or a row in :data:`HELD`.
"""

from __future__ import annotations

from typing import Final

HELD: Final[dict[str, tuple[str, ...]]] = {
    "tests/pure/config/test_load.py::test_what_lists_say_is_of_a_bounded_size": (
        "mgw.config.listed_models.MAX_NAME_CHARACTERS",
        "mgw.config.listed_models.MAX_DESCRIPTION_CHARACTERS",
        "mgw.config.listed_models._MAX_MODEL_TOKENS",
    ),
    "tests/pure/routing/test_body_rules.py::test_so_much_is_remembered_and_no_more": (
        "mgw.routing.body_rules.MAX_KNOWN",
        "mgw.routing.body_rules.MAX_KNOWN_CHARS",
    ),
    "tests/pure/clients/tokens/test_token.py::"
    "test_a_token_up_to_the_limit_is_well_formed_and_a_larger_one_is_recognized": (
        "mgw.clients.tokens.token.MAX_TOKEN_BYTES",
    ),
    "tests/pure/clients/tokens/test_key_set.py::test_so_many_bytes_may_be_in_a_set": (
        "mgw.clients.tokens.key_set.MAX_SET_BYTES",
    ),
    "tests/pure/clients/tokens/test_key_set.py::test_so_many_keys_may_be_in_a_set": (
        "mgw.clients.tokens.key_set.MAX_KEYS",
    ),
    "tests/pure/clients/tokens/test_key_set.py::test_of_keys_with_one_id_few_are_tried": (
        "mgw.clients.tokens.key_set.MAX_KEYS_OF_ID",
    ),
    "tests/pure/clients/tokens/test_key_set.py::test_rsa_keys_have_so_many_bits": (
        "mgw.clients.tokens.key_set.MAX_RSA_BITS",
    ),
    "tests/pure/clients/tokens/test_key_set.py::test_an_exponent_is_odd_and_not_too_large": (
        "mgw.clients.tokens.key_set._MAX_EXPONENT_BITS",
    ),
    "tests/pure/clients/tokens/test_key_set.py::test_an_id_is_shown_short_and_printable": (
        "mgw.clients.tokens.key_set._MAX_SHOWN_ID",
    ),
    "tests/pure/clients/tokens/test_key_set.py::test_the_error_names_some_reasons": (
        "mgw.clients.tokens.key_set._MAX_SHOWN_KEYS",
    ),
    "tests/pure/clients/tokens/test_verify.py::test_anything_else_does_not_name_a_client": (
        "mgw.clients.tokens.verify.MAX_CLIENT_CHARACTERS",
    ),
    "tests/memory/credentials/test_on_behalf.py::test_exactly_so_many_callers_are_remembered": (
        "mgw.credentials.on_behalf.MAX_CALLERS",
    ),
    "tests/memory/credentials/test_exchange_queue.py::test_exactly_so_many_exchanges_are_in_progress": (
        "mgw.credentials.exchange_queue.MAX_EXCHANGES",
    ),
    "tests/pure/clients/test_known_tokens.py::test_exactly_so_many_expired_tokens_are_remembered": (
        "mgw.clients.expired_tokens.MAX_TOKENS",
    ),
    "tests/pure/clients/test_known_tokens.py::test_exactly_so_many_bytes_of_tokens_are_known": (
        "mgw.clients.known_tokens.MAX_KNOWN_BYTES",
    ),
    "tests/memory/ops/test_metrics.py::test_so_many_names_of_keys_are_labels_and_no_more": (
        "mgw.ops.request_metrics.MAX_CLIENTS",
    ),
    "tests/memory/exchange/test_limit_warnings.py::test_the_log_remembers_a_bounded_number_of_them": (
        "mgw.usage.limit_warnings.MAX_WARNINGS",
    ),
    "tests/memory/exchange/test_body.py::test_a_body_with_many_edits_is_put_together": (
        "mgw.exchange.body._MAX_SPLICED",
    ),
    "tests/memory/redis/test_counts.py::"
    "test_a_refusal_counts_only_if_a_limit_of_the_client_can_have_caused_it": (
        "mgw.redis.replies.MAX_WAIT_MS",
    ),
    "tests/memory/realtime/test_session_models.py::test_exactly_so_many_refusals_may_wait_to_be_read": (
        "mgw.realtime.relay.MAX_UNREAD_ANSWERS",
    ),
    "tests/memory/realtime/test_session_prices.py::test_the_counts_of_a_message_up_to_some_size_are_seen": (
        "mgw.realtime.traffic._MAX_METERED_BYTES",
    ),
    "tests/memory/web/test_channel.py::test_exactly_so_much_is_held_behind_a_request": (
        "mgw.web.client_transport.MAX_HELD",
    ),
    "tests/memory/realtime/test_first_message.py::"
    "test_who_sends_much_behind_it_is_paused_until_it_is_taken": (
        "mgw.realtime.first_message.MAX_WAITING_BYTES",
    ),
    "tests/memory/realtime/test_upstream_socket.py::test_so_much_of_the_body_of_a_refusal_is_kept": (
        "mgw.realtime.upstream_socket.MAX_REFUSAL_BYTES",
    ),
    "tests/memory/realtime/test_relay_laws.py::test_as_much_is_held_as_may_be_and_no_more": (
        "mgw.realtime.messages.MAX_MESSAGE_BYTES",
    ),
    "tests/memory/realtime/test_first_message.py::test_more_than_its_limit_is_refused": (
        "mgw.realtime.messages.MAX_FRAMING_BYTES",
    ),
    "tests/memory/exchange/test_model_lists.py::test_so_much_of_an_answer_is_looked_at": (
        "mgw.exchange.answering_model._MAX_BYTES",
    ),
    "tests/memory/credentials/test_token_request.py::test_a_response_may_have_so_many_bytes": (
        "mgw.credentials.token_request.MAX_RESPONSE_BYTES",
    ),
    "tests/memory/usage/test_receiver.py::test_so_much_of_an_answer_is_read": (
        "mgw.usage.receiver.MAX_RESPONSE_BYTES",
    ),
    "tests/memory/credentials/test_store.py::test_a_store_that_is_too_large_says_so": (
        "mgw.credentials.subscription.store.MAX_BYTES",
    ),
    "tests/pure/credentials/aws/test_clock.py::test_an_answer_says_something_for_fifteen_minutes": (
        "mgw.credentials.aws.clock.MAX_WAIT_SECONDS",
    ),
    "tests/pure/usage/price_import/test_json_document.py::test_exactly_so_many_bytes_are_read": (
        "mgw.usage.price_import.json_document.MAX_LIST_BYTES",
    ),
    "tests/pure/usage/price_import/test_json_document.py::test_a_number_has_exactly_so_many_digits": (
        "mgw.usage.price_import.json_document.MAX_DIGITS",
    ),
    "tests/pure/usage/price_import/test_price_file.py::test_a_comment_holds_nothing_but_a_line": (
        "mgw.usage.price_import.entry.MAX_SHOWN",
    ),
    "tests/pure/dialects/test_limits.py::test_exactly_so_much_passes_and_one_more_does_not": (
        "mgw.dialects.anthropic.stream_writer.MAX_BLANK",
        "mgw.dialects.gemini.speech._MAX_CHARACTERS",
        "mgw.dialects.gemini.stream_writer.MAX_HELD_CHARACTERS",
        "mgw.dialects.openai.calls._MAX_HELD",
        "mgw.dialects.openai.stream_events.MAX_CHOICES",
        "mgw.dialects.openai.stream_writer.MAX_HELD",
        "mgw.dialects.openai.stream_writer._MAX_CHOICES",
        "mgw.dialects.responses.stream_writer.MAX_KEPT_BYTES",
        "mgw.dialects.serial_writer.MAX_HELD",
    ),
    "tests/pure/dialects/openai/test_extra_chunk.py::"
    "test_an_event_of_exactly_so_many_bytes_may_be_the_extra_chunk": (
        "mgw.dialects.openai.extra_chunk.MAX_HELD",
    ),
    "tests/pure/tokens/test_answer.py::test_many_texts_at_once_share_what_is_held": (
        "mgw.tokens.answer.MAX_OPEN",
    ),
    "tests/memory/exchange/test_untold.py::test_where_too_many_wait_the_length_has_to_do": (
        "mgw.exchange.untold.MAX_PENDING",
    ),
    "tests/memory/exchange/test_untold.py::test_where_too_large_requests_wait_they_are_guessed_by_samples": (
        "mgw.exchange.untold.MAX_PENDING_BYTES",
    ),
    "tests/memory/exchange/test_untold.py::"
    "test_a_whole_answer_of_so_many_bytes_is_parsed_and_a_longer_one_read_by_its_words": (
        "mgw.exchange.answer_copy.MAX_WHOLE_BYTES",
    ),
    "tests/memory/exchange/test_untold.py::test_a_request_with_so_many_values_is_read_as_one": (
        "mgw.exchange.untold.MAX_OBJECTS",
        "mgw.exchange.untold.MAX_VALUES",
    ),
    "tests/memory/exchange/test_held_events.py::test_no_more_than_64_kib_are_held": (
        "mgw.exchange.held_events.MAX_HELD",
        "mgw.exchange.stream_filter.MAX_HELD",
    ),
    "tests/memory/identity/test_keys_dir.py::test_ten_thousand_files_are_read_and_one_more_is_not": (
        "mgw.identity.keys_dir.MAX_FILES",
    ),
    "tests/memory/identity/test_keys_dir.py::test_a_file_has_at_most_64_kib": (
        "mgw.identity.keys_dir.MAX_FILE_BYTES",
    ),
    "tests/memory/web/test_hidden_keys.py::"
    "test_a_key_that_is_learned_compiles_a_small_pattern_however_many_there_are": (
        "mgw.web.hidden_keys.MAX_LEARNED",
    ),
    "tests/pure/config/test_yaml_document.py::test_as_many_values_are_read_as_are_allowed": (
        "mgw.config.yaml_document.MAX_VALUES",
    ),
    "tests/pure/clients/test_try_it.py::test_a_few_cookies_of_the_name_are_looked_at": (
        "mgw.clients.try_it.MAX_TOKENS",
    ),
    "tests/pure/reactor/test_regular_file.py::"
    "test_a_file_of_the_largest_size_is_read_and_a_larger_one_is_not": (
        "mgw.config.load.MAX_FILE_BYTES",
        "mgw.config.load.MAX_PRICE_FILE_BYTES",
        "mgw.credentials.google_files.MAX_FILE_BYTES",
        "mgw.reactor.regular_file.MAX_TOKEN_FILE",
    ),
    "tests/pure/reactor/test_regular_file.py::"
    "test_certificates_of_the_largest_size_are_read_and_larger_ones_are_not": (
        "mgw.reactor.regular_file.MAX_CERTIFICATE_FILE",
    ),
    "tests/pure/dashboard/test_request_query.py::test_a_limit_is_a_number_within_bounds": (
        "mgw.dashboard.request_list.MAX_LIMIT",
    ),
    "tests/pure/redis/test_replies.py::test_exactly_so_much_is_taken_and_one_more_is_not": (
        "mgw.redis.replies.MAX_DEPTH",
        "mgw.redis.replies.MAX_ELEMENTS",
        "mgw.redis.replies.MAX_HOSTS",
        "mgw.redis.replies.MAX_REPLY_BYTES",
        "mgw.redis.replies.MAX_REST_MS",
        "mgw.redis.replies.MAX_NUMBER",
    ),
    "tests/memory/realtime/test_session_models.py::test_so_many_values_of_a_message_are_looked_at": (
        "mgw.realtime.session_models._MAX_VALUES",
    ),
    "tests/pure/usage/test_otlp_encoder.py::test_a_text_of_the_largest_size_is_whole": (
        "mgw.usage.otlp_span.MAX_TEXT",
    ),
    "tests/memory/workers/test_channel.py::"
    "test_a_frame_that_would_be_too_long_closes_the_channel_before_it_has_come": (
        "mgw.workers.channel.MAX_FRAME_BYTES",
    ),
    "tests/memory/upstream/test_pool.py::test_a_waiter_beyond_the_line_is_told_to_come_back_at_once": (
        "mgw.upstream.pool.MAX_WAITERS",
    ),
    "tests/memory/ops/test_live_models_limits.py::test_a_name_may_be_so_long": (
        "mgw.ops.live_models.MAX_TEXT",
    ),
    "tests/memory/ops/test_live_models_limits.py::test_a_list_may_hold_so_much": (
        "mgw.ops.live_models.MAX_MODELS",
        "mgw.ops.live_models.MAX_OBJECTS",
        "mgw.ops.live_models.MAX_VALUES",
        "mgw.ops.probes.MAX_RESPONSE_BYTES",
    ),
    "tests/memory/credentials/test_accounts.py::"
    "test_a_refresh_that_fails_is_said_in_the_entry_and_pauses_longer_each_time": (
        "mgw.credentials.subscription.accounts.MAX_PAUSE_SECONDS",
    ),
    "tests/memory/credentials/test_login.py::"
    "test_a_device_login_ends_with_its_code_and_never_asks_sooner_than_it_may": (
        "mgw.credentials.subscription.token_exchange.MAX_DEVICE_SECONDS",
    ),
    "tests/memory/credentials/test_pool.py::"
    "test_the_number_of_rests_is_bounded_and_those_that_are_over_go_first": (
        "mgw.credentials.subscription.pool.MAX_RESTS",
    ),
    "tests/memory/credentials/test_token_request.py::test_a_tokens_life_is_a_number_within_bounds": (
        "mgw.credentials.token_request.MAX_SECONDS",
    ),
    "tests/memory/dashboard/test_access.py::test_failed_sign_ins_are_limited_for_each_client": (
        "mgw.dashboard.sign_in.MAX_FAILURES",
    ),
    "tests/memory/dashboard/test_event_memory.py::"
    "test_without_a_thread_no_more_is_handed_over_than_there_is_room_for": (
        "mgw.dashboard.event_memory.MAX_WORK",
    ),
    "tests/memory/dashboard/test_event_ring.py::test_a_record_with_long_names_is_not_held": (
        "mgw.dashboard.event_ring.MAX_DROPPED_CHARS",
        "mgw.usage.labels.MAX_SHARED_CHARS",
    ),
    "tests/memory/dashboard/test_limits.py::"
    "test_of_rows_of_each_client_those_with_the_largest_share_are_told": (
        "mgw.dashboard.limits.MAX_EACH_ROWS",
    ),
    "tests/memory/dashboard/test_token_access.py::test_the_session_that_was_used_least_recently_makes_room": (
        "mgw.dashboard.token_sessions.MAX_SESSIONS",
    ),
    "tests/memory/dashboard/test_log_lines.py::test_the_newest_come_last_and_the_oldest_go": (
        "mgw.dashboard.log_lines.MAX_LINES",
    ),
    "tests/memory/dashboard/test_logins.py::"
    "test_at_most_so_many_flows_are_kept_and_those_that_have_ended_make_room": (
        "mgw.dashboard.logins.MAX_FLOWS",
    ),
    "tests/memory/dashboard/test_recent_events.py::test_text_that_waits_is_bounded_and_the_oldest_goes": (
        "mgw.dashboard.recent_events.MAX_TEXT_BYTES",
    ),
    "tests/memory/dashboard/test_recent_events.py::test_the_table_is_bounded_in_bytes": (
        "mgw.dashboard.recent_events.MAX_TABLE_BYTES",
    ),
    "tests/memory/dashboard/test_recent_events.py::"
    "test_the_newest_ten_thousand_are_kept_whenever_somebody_asks": (
        "mgw.dashboard.recent_events.MAX_EVENTS",
    ),
    "tests/memory/dashboard/test_request_list.py::test_a_page_is_bounded_in_bytes_and_goes_on": (
        "mgw.dashboard.request_list.MAX_PAGE_BYTES",
    ),
    "tests/memory/dashboard/test_session_list.py::test_the_oldest_are_listed_first_up_to_a_bound": (
        "mgw.dashboard.session_list.MAX_SESSIONS_SHOWN",
    ),
    "tests/memory/dashboard/test_usage_memory.py::test_names_without_end_are_other": (
        "mgw.dashboard.usage_spans.MAX_NAMES",
    ),
    "tests/memory/dashboard/test_usage_memory.py::test_the_oldest_times_go_where_there_is_too_much": (
        "mgw.dashboard.usage_spans.MAX_BYTES",
        "mgw.dashboard.usage_spans.MAX_ROWS",
    ),
    "tests/memory/dashboard/test_usage_memory.py::test_what_waits_is_bounded_while_the_thread_is_busy": (
        "mgw.dashboard.usage_memory.MAX_EVENTS",
        "mgw.dashboard.usage_memory.MAX_KEPT",
        "mgw.dashboard.usage_memory.MAX_WAITING",
    ),
    "tests/memory/dashboard/test_usage_sources.py::"
    "test_a_name_may_have_so_many_bytes_and_a_longer_one_is_other": ("mgw.usage.usage_read.MAX_KEY_BYTES",),
    "tests/memory/dashboard/test_usage_sources.py::"
    "test_the_most_asked_keys_have_a_place_and_the_rest_is_other": (
        "mgw.dashboard.usage_answer.MAX_SERIES_GROUPS",
    ),
    "tests/memory/dashboard/test_usage_sql.py::test_no_more_queries_wait_than_there_is_room_for": (
        "mgw.dashboard.event_queries.MAX_QUERIES",
    ),
    "tests/memory/exchange/test_gateway_headers.py::test_there_are_at_most_so_many_names": (
        "mgw.exchange.response_translation.MAX_HEADER_NAMES",
    ),
    "tests/memory/exchange/test_limits.py::test_a_translated_answer_may_have_so_many": (
        "mgw.exchange.response_translation.MAX_OBJECTS",
        "mgw.exchange.response_translation.MAX_VALUES",
    ),
    "tests/memory/exchange/test_limits.py::test_a_translated_request_may_have_so_many": (
        "mgw.exchange.translation.MAX_OBJECTS",
        "mgw.exchange.translation.MAX_VALUES",
    ),
    "tests/memory/exchange/test_limits.py::test_the_name_of_a_model_may_be_so_long": (
        "mgw.exchange.target_resolution.MAX_MODEL_CHARS",
    ),
    "tests/memory/exchange/test_repeated_keys.py::"
    "test_an_error_of_the_largest_size_is_looked_at_and_a_longer_one_is_not": (
        "mgw.exchange.passing_filters.MAX_ERROR_BYTES",
    ),
    "tests/memory/exchange/test_rewritten_urls.py::test_a_list_that_is_far_larger_than_any_page_is_refused": (
        "mgw.exchange.passthrough._MAX_REWRITTEN_BYTES",
    ),
    "tests/memory/ops/test_live_models_failures.py::test_twenty_pages_are_the_most": (
        "mgw.ops.live_models.MAX_PAGES",
    ),
    "tests/memory/ops/test_json_lines.py::test_a_usage_line_is_bounded": ("mgw.ops.json_lines.MAX_LINE",),
    "tests/memory/ops/test_logs.py::test_a_long_value_is_cut": ("mgw.ops.logs.MAX_VALUE",),
    "tests/memory/reactor/twisted_fast/test_tcp_transport.py::"
    "test_a_burst_of_clients_comes_after_the_data_of_those_who_are_there": (
        "mgw.reactor.twisted_fast.tcp_transport.MAX_ACCEPTS",
    ),
    "tests/memory/upstream/test_pool.py::test_no_more_connections_rest_than_allowed_and_the_oldest_goes": (
        "mgw.upstream.pool.MAX_IDLE",
    ),
    "tests/memory/usage/test_outbox.py::"
    "test_a_failed_batch_is_tried_after_a_second_and_then_twice_as_late_each_time": (
        "mgw.usage.outbox.MAX_RETRY",
    ),
    "tests/memory/usage/test_outbox.py::test_batches_that_wait_are_stored_together": (
        "mgw.usage.batch_store.MAX_STORED_BATCHES",
    ),
    "tests/memory/usage/test_outbox.py::test_no_more_bytes_are_stored_together_than_allowed": (
        "mgw.usage.batch_store.MAX_STORED_BYTES",
    ),
    "tests/memory/usage/test_record_queue.py::test_the_bound_is_kept_without_a_loss": (
        "mgw.usage.record_queue.MAX_WAITING",
    ),
    "tests/memory/web/test_admission.py::test_no_more_heads_are_kept_than_there_is_room_for": (
        "mgw.memo.request_memo.MAX_HEADS",
    ),
    "tests/memory/web/test_heads_that_differ.py::test_no_more_models_are_kept_than_there_is_room_for": (
        "mgw.memo.request_memo.MAX_TARGETS",
    ),
    "tests/memory/web/test_max_clients.py::"
    "test_only_so_many_are_told_at_a_time_and_who_came_first_goes_first": ("mgw.web.listener.MAX_REFUSED",),
    "tests/memory/ops/test_reload_status.py::test_the_longest_problems_and_notes_can_be_read": (
        "mgw.ops.reload_status.MAX_NOTES",
        "mgw.ops.reload_status.MAX_PROBLEMS",
    ),
    "tests/memory/web/test_max_clients.py::test_what_it_sends_is_discarded_and_bounded": (
        "mgw.web.listener.MAX_DISCARDED",
    ),
    "tests/memory/web/test_spooled_requests.py::test_audio_has_a_limit_of_its_own_below_the_configured_one": (
        "mgw.routing.media_routes.MAX_AUDIO_BYTES",
    ),
    "tests/pure/clients/test_window.py::test_up_to_a_limit_each_addition_has_an_entry_of_its_own": (
        "mgw.clients.window.MAX_EXACT",
    ),
    "tests/pure/dashboard/test_usage_query.py::"
    "test_a_series_by_keys_has_fewer_points_and_a_refusal_names_a_step_that_fits": (
        "mgw.dashboard.usage_query.MAX_POINTS_BY_KEY",
    ),
    "tests/pure/dashboard/test_usage_query.py::test_points_are_counted_as_the_series_has_them": (
        "mgw.dashboard.usage_query.MAX_POINTS",
    ),
    "tests/pure/dialects/anthropic/test_cache_control.py::"
    "test_at_most_four_breakpoints_go_and_only_where_they_were_set": (
        "mgw.dialects.anthropic.cache_control.MAX_BREAKPOINTS",
    ),
    "tests/pure/dialects/test_own_message.py::"
    "test_a_message_is_looked_at_up_to_a_limit_where_a_word_is_not_cut": (
        "mgw.dialects.refusal.MAX_OWN_MESSAGE",
    ),
    "tests/memory/exchange/test_error_messages.py::"
    "test_an_error_of_64_kib_is_looked_at_and_a_longer_one_is_not": ("mgw.exchange.refusals.MAX_BYTES",),
    "tests/pure/usage/test_error_message.py::test_the_first_300_characters_are_shown": (
        "mgw.usage.error_message.MAX_CHARACTERS",
    ),
    "tests/pure/dialects/anthropic/test_errors.py::test_long_and_odd_words_are_cut_and_written": (
        "mgw.dialects.anthropic.errors.MAX_MESSAGE_BYTES",
    ),
    "tests/pure/dialects/anthropic/test_schema.py::"
    "test_at_most_as_many_tools_are_strict_as_the_vendor_takes": (
        "mgw.dialects.anthropic.schema.MAX_STRICT_TOOLS",
    ),
    "tests/pure/dialects/gemini/test_errors.py::test_a_message_is_cut": (
        "mgw.dialects.gemini.errors._MAX_CHARACTERS",
    ),
    "tests/pure/dialects/gemini/test_options.py::test_more_than_five_stop_sequences_are_reported": (
        "mgw.dialects.gemini.options._MAX_STOPS",
    ),
    "tests/pure/dialects/openai/test_embedding.py::test_no_more_texts_are_taken_than_openai_takes": (
        "mgw.dialects.openai.embedding.MAX_INPUTS",
    ),
    "tests/pure/dialects/openai/test_render_options.py::test_limits_are_told_in_the_providers_words": (
        "mgw.dialects.openai.options._MAX_STOP_SEQUENCES",
    ),
    "tests/pure/dialects/test_catalog.py::test_gemini_shows_as_many_as_asked_within_bounds": (
        "mgw.dialects.gemini.catalog.MAX_PAGE_SIZE",
    ),
    "tests/pure/dialects/test_metering.py::test_a_stream_of_nothing_but_usage_is_given_up": (
        "mgw.dialects.metering.MAX_LOOKS",
    ),
    "tests/pure/http/test_head_key.py::test_a_long_head_has_no_key": ("mgw.http.head_key.MAX_KEY_BYTES",),
    "tests/pure/http/test_head_shape.py::test_a_shape_that_is_seen_no_more_is_forgotten": (
        "mgw.http.head_shape.MAX_SHAPES",
    ),
    "tests/pure/usage/test_event.py::test_too_many_dropped_names_end_in_an_ellipsis": (
        "mgw.usage.event.MAX_DROPPED_NAMES",
    ),
    "tests/pure/usage/test_otlp_encoder.py::test_beyond_the_limit_combinations_are_counted_together": (
        "mgw.usage.operation_metrics.MAX_SERIES",
    ),
    "tests/pure/usage/test_otlp_encoder.py::test_texts_numbers_and_names_are_bounded": (
        "mgw.usage.otlp_span.MAX_NAMES",
        "mgw.usage.otlp_span._MAX_INTEGER",
    ),
    "tests/pure/wire/test_json_spans.py::test_a_key_is_stated_a_bounded_number_of_times": (
        "mgw.wire.json_spans.MAX_STATED",
    ),
    "tests/pure/wire/test_json_spans.py::"
    "test_a_key_that_stands_everywhere_is_looked_for_in_a_bounded_number_of_places": (
        "mgw.wire.json_spans.MAX_CANDIDATES",
    ),
    "tests/pure/wire/test_nested_strings.py::test_a_body_that_names_too_many_models_is_refused": (
        "mgw.wire.nested_strings.MAX_FOUND",
    ),
    "tests/pure/wire/test_nested_strings.py::test_how_many_values_are_too_many_by_default": (
        "mgw.wire.nested_strings.MAX_VALUES",
    ),
    "tests/pure/wire/test_whole_frames.py::test_a_reason_has_at_most_123_bytes_of_whole_characters": (
        "mgw.wire.whole_frames._MAX_REASON_BYTES",
    ),
}
"""The test that fails where a limit is one higher or one lower, and the limits that it holds."""
NOBODY_SEES: Final[dict[str, tuple[str, ...]]] = {
    "how much is done before others take their turn": (
        "mgw.dashboard.feed.MAX_WRITE_BYTES",
        "mgw.dashboard.profiles.MAX_COMPARISONS",
        "mgw.exchange.body.MAX_PART_BYTES",
        "mgw.reactor.twisted_fast.event_loop.MAX_EVENTS",
        "mgw.reactor.twisted_fast.event_loop.MAX_POLLS",
        "mgw.reactor.twisted_fast.event_loop.MAX_WAIT",
        "mgw.upstream.connection.MAX_JOINED_BYTES",
    ),
    "how much is kept to be faster: without it the same comes, later": (
        "mgw.credentials.aws.signer.MAX_KEPT",
        "mgw.credentials.aws.signer.MAX_KEPT_BYTES",
        "mgw.dialects.gemini.request._MAX_KEPT_CHARS",
        "mgw.dialects.metering.MAX_SHAPES",
        "mgw.dialects.metering._MAX_SHAPED_BYTES",
        "mgw.memo.request_memo.MAX_SENT",
        "mgw.memo.request_memo.MAX_SENT_BYTES",
        "mgw.memo.request_memo.MAX_SENT_LINES",
        "mgw.memo.request_memo.MAX_PATH_BYTES",
        "mgw.memo.request_memo.MAX_MODEL_CHARS",
        "mgw.memo.request_memo.MAX_MODELS",
        "mgw.memo.client_request.MAX_VARYING",
        "mgw.dashboard.usage_spans.MAX_SPANS",
        "mgw.workers.rows.MAX_LABELS",
        "mgw.http.head_key._MAX_DIGITS",
        "mgw.http.head_shape._MAX_BYTES",
        "mgw.ops.logs.MAX_SHARED_PATH",
        "mgw.upstream.agent.MAX_ORIGINS",
        "mgw.usage.otlp_span.MAX_KEPT",
        "mgw.memo.request_memo.MAX_LABELS",
        "mgw.memo.request_memo.MAX_KEYS_BYTES",
        "mgw.memo.request_memo.MAX_SEEN",
    ),
    "an estimate, which one character more hardly changes": ("mgw.tokens.text.MAX_READ_CHARS",),
    "more than there ever is": ("mgw.cli.running._MAX_BYTES", "mgw.ops.reload_status.MAX_BYTES"),
    "the largest number of its form: there is none beyond it": ("mgw.wire.frames._MAX_LENGTH",),
    "how far the causes of an error are followed to free memory": ("mgw.nouns.errors._MAX_CAUSES",),
}
"""Why nobody could see one more, and the limits of which that is true."""
NOT_TRIED: Final[tuple[str, ...]] = (
    "mgw.cli.auth._MAX_IMPORT_BYTES",
    "mgw.cli.event_source.MAX_BACK_OFF",
    "mgw.cli.event_source.MAX_EVENT_BYTES",
    "mgw.cli.event_source.MAX_LINE_BYTES",
    "mgw.cli.event_source._MAX_ERROR_BYTES",
    "mgw.cli.gateway_query.MAX_ANSWER_BYTES",
    "mgw.dashboard.cookies.MAX_ENDED",
    "mgw.dashboard.event_ring.MAX_TEXT_BYTES",
    "mgw.dashboard.feed.MAX_READERS",
    "mgw.dashboard.logins._MAX_NAMES",
    "mgw.dashboard.profiles.MAX_MODELS",
    "mgw.dashboard.request_list._MAX_CURSOR_CHARS",
    "mgw.dashboard.requests.MAX_REQUESTS",
    "mgw.exchange.credentials.MAX_REASON_BYTES",
    "mgw.exchange.response.MAX_BUFFERED_BYTES",
    "mgw.workers.client_balance.MAX_WORKERS",
    "mgw.workers.forked_process.MAX_MESSAGE_BYTES",
    "mgw.workers.internal_listener.MAX_LINE_BYTES",
    "mgw.workers.internal_listener.MAX_PATH_BYTES",
    "mgw.redis.link.MAX_RETRY_SECONDS",
    "mgw.redis.cooldowns.MAX_KEPT",
    "mgw.workers.rows.MAX_MESSAGE_BYTES",
    "mgw.workers.rows.MAX_WAITING_BYTES",
    "mgw.ops.live_models.MAX_CACHED_MODELS",
    "mgw.ops.live_models.MAX_FAILURES",
    "mgw.upstream.connection.MAX_UNWATCHED_BYTES",
    "mgw.usage.line_writer.MAX_BYTES",
    "mgw.usage.outbox.MAX_BATCH_BYTES",
    "mgw.usage.outbox.MAX_HELD_BYTES",
    "mgw.usage.outbox.MAX_HELD_EVENTS",
)
"""Limits that are tried from afar only: none is added here, and one that gets its test goes."""
