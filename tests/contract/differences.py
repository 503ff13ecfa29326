"""Differences of servers from the contract, as data; each is verified by its test."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

MB = 1024 * 1024


@dataclass(frozen=True)
class Difference:
    """A test that must fail on a server."""

    test: str
    """Name of the test, or a pattern for names with parameters (``*`` and ``?``)."""
    instead: str
    """The behaviour of the server."""
    reason: str
    """Why the contract is different."""
    server: str = "sqld"

    def applies(self, name: str, server: str | None) -> bool:
        if server != self.server:
            return False
        plain, _, parameters = name.partition("[")
        wanted, _, inner = self.test.partition("[")
        if plain != wanted:
            return False
        return not inner or fnmatchcase(
            parameters.removesuffix("]").removeprefix(f"{server}-"), inner.removesuffix("]")
        )


SEED = "required"
SPEC = "required by the specification"
RECENT = "required by the specification of 2026"
OURS = "the service is only on loopback, and foreign host names must not lead to it"

DIFFERENCES = [
    # Routes.
    Difference("test_protobuf_is_not_supported", "supports it", "no client needs Protobuf; the service has only JSON"),
    Difference(
        "test_a_foreign_host_is_refused", "uses the first label of any host name as the name of a database", OURS
    ),
    Difference("test_at_the_service_s_own_address_the_token_names_the_database", "uses only the host name", OURS),
    Difference("test_a_stream_can_switch_between_addresses_and_versions", "has no second address", OURS),
    # Tokens.
    Difference("test_a_refusal_has_message_and_code", "sends `error` only", "clients read different members"),
    Difference(
        "test_a_token_is_invalid_after_its_database_was_recreated",
        "has the database name in the token, so an old token opens a new database of that name",
        "deleting a database must invalidate its tokens",
    ),
    Difference(
        "test_a_recreated_database_is_empty",
        "answers 200: the token and the name are valid again",
        "deleting a database must invalidate its tokens",
    ),
    Difference(
        "test_a_baton_is_invalid_with_the_token_of_another_subject",
        "does not bind a baton to a token",
        "anyone with a baton could continue another user's transaction",
    ),
    Difference(
        "test_a_baton_is_invalid_with_a_token_of_other_rights",
        "does not bind a baton to a token",
        "a read-only token must not commit or roll back writes of others",
    ),
    Difference(
        "test_a_baton_is_invalid_at_another_database",
        "accepts a baton of one database with a token of another",
        "a token is for one database",
    ),
    # Pipelines and requests.
    Difference(
        "test_a_baton_comes_with_the_time_that_its_stream_lives",
        "sends no time",
        "a client need not guess how long its stream lives",
    ),
    Difference(
        "test_the_first_line_has_the_time_that_the_stream_lives",
        "sends no time",
        "a client need not guess how long its stream lives",
    ),
    Difference(
        "test_a_malformed_body_is_400_as_a_line_of_text[duplicate keys]",
        "takes the last of them",
        "the JSON decoder does not detect them; no client sends any",
        server="in_process",
    ),
    Difference(
        "test_nothing_of_a_malformed_pipeline_runs[unknown1]",
        "detects a statement without text when it is reached; earlier ones are applied",
        "an invalid request is refused before anything runs",
    ),
    Difference(
        "test_nothing_of_a_pipeline_runs_if_its_close_is_not_last",
        "has applied the statements before the close, and their results are lost",
        "an invalid request is refused before anything runs",
    ),
    Difference("test_describe_changes_no_setting[foreign_keys]", "changes it", "describe runs nothing"),
    Difference("test_an_unknown_id_is_an_error_of_its_request", "answers 400, the stream is lost", "one wrong id"),
    Difference("test_an_id_in_use_is_an_error_of_its_request", "answers 400, the stream is lost", "one wrong id"),
    Difference(
        "test_a_thousand_texts_can_be_stored",
        "stores 50 texts for a stream",
        "a published client stores up to a thousand",
    ),
    Difference(
        "test_version_2_has_no_get_autocommit",
        "answers 400 when it is reached; earlier requests are applied",
        "an invalid request is refused before anything runs",
    ),
    # Statements and batches.
    Difference("test_a_constraint_has_its_extended_code[*]", "sends `code` only", RECENT),
    Difference(
        "test_two_statements_are_refused[SELECT 1; SELEC]",
        "ignores an incomplete second statement",
        "incomplete SQL must not run",
    ),
    Difference(
        "test_columns_follow_a_change_of_the_schema",
        "keeps the columns of an empty result from before the change",
        "columns must match rows",
    ),
    Difference("test_rows_that_are_not_wanted_are_omitted", "ignores want_rows", SPEC),
    Difference("test_every_optional_field_may_be_null", "answers 400 to null arguments", "null means an absent key"),
    Difference("test_a_cursor_omits_rows_that_are_not_wanted", "ignores want_rows", SPEC),
    Difference(
        "test_an_unparsable_step_is_an_error_of_its_own",
        "parses all steps first and fails the whole batch",
        "the error must name the step",
    ),
    # Values.
    Difference(
        "test_random_doubles_are_returned_bit_by_bit",
        "reads every third double one unit in the last place off",
        "values are exact",
    ),
    Difference(
        "test_text_that_is_not_utf8_is_an_error_of_its_statement",
        "answers 500 and the stream is lost",
        "one invalid value must not end a transaction",
    ),
    # Cursors, compression.
    Difference("test_a_cursor_has_only_the_entries_of_the_specification", "adds a `replication_index` entry", SPEC),
    Difference("test_the_last_rowid_of_a_step_is_a_string", "sends a number, which is not exact beyond 2^53", SPEC),
    Difference(
        "test_a_syntax_error_is_an_entry_and_keeps_the_transaction_open",
        "answers 500; stream and transaction are lost",
        "the error must name the step, and a syntax error must not end a transaction",
    ),
    Difference(
        "test_text_that_is_not_utf8_is_an_entry",
        "truncates the response",
        "a response must not be truncated without an error",
    ),
    Difference(
        "test_a_read_only_token_gets_403_and_nothing_is_sent",
        "answers 200 and truncates the response",
        "a response must not be truncated without an error",
    ),
    Difference(
        "test_a_small_response_is_not_compressed", "compresses everything", "compression takes longer than it saves"
    ),
    # Limits and windows.
    Difference("test_a_body_beyond_the_limit_is_413", "has no limit", "bodies are kept in memory"),
    Difference(
        "test_a_transaction_is_rolled_back_after_5_seconds_without_other_writers",
        "enforces the window only when another stream wants to write",
        SEED,
    ),
    # Additions of libSQL to SQL, and PRAGMAs that tools read.
    Difference(
        "test_the_list_of_databases_has_one_row_without_a_path",
        "lists the path of the file",
        "a client must not learn the paths of the server",
    ),
    Difference(
        "test_the_list_of_databases_has_the_temporary_schema_of_a_stream",
        "refuses CREATE TEMP TABLE",
        "SQLite has temporary tables",
    ),
    Difference(
        "test_a_read_only_transaction",
        "begins an ordinary transaction; writes are applied",
        "a transaction that is begun to read must not write",
    ),
    Difference(
        "test_a_changed_constraint_returns_no_columns",
        "uses SQLite 3.45, which has neither statement",
        "SQLite 3.53 has both",
    ),
    Difference(
        "test_the_rest_of_the_definition_is_unchanged",
        "replaces the column up to the first comma, also one in parentheses",
        "a definition that breaks the table must not be written",
    ),
    Difference(
        "test_an_index_uses_a_new_collation",
        "keeps the old order of the index, which then misses rows",
        "an index must find every row",
    ),
    Difference(
        "test_a_new_collation_that_breaks_a_unique_index_changes_nothing",
        "accepts it; the index then holds duplicates",
        "an index must find every row",
    ),
    Difference(
        "test_the_key_of_a_table_without_rowid_keeps_its_collation",
        "changes the collation; the rows keep their order",
        "a key must find every row",
    ),
    Difference(
        "test_a_generated_column_that_is_stored_keeps_its_expression",
        "changes the expression; existing rows keep the old values",
        "a generated column has the value of its expression",
    ),
    Difference(
        "test_a_query_only_stream_cannot_alter_a_column",
        "alters it",
        "PRAGMA query_only stops every change of a file",
    ),
    Difference("test_two_numbers_are_not_joined_to_one", "reads [1 2] as [12]", "a number must not be another one"),
    Difference("test_a_number_that_is_too_large_is_an_error", "stores an infinity", "a number must not be another one"),
    Difference("test_a_vector_as_text_has_all_digits", "writes six digits", "a number must not be another one"),
    Difference("test_a_regular_expression", "has no REGEXP", "SQLite's own extension comes with apsw"),
    Difference("test_a_sample_of_one_value_has_no_deviation", "gives 0.0", "PostgreSQL, DuckDB and pandas give NULL"),
    Difference("test_percentiles_and_a_correlation", "has neither", "SQLite and analysts have them"),
    Difference("test_a_replacement_of_matches", "has no regexp_replace", "PostgreSQL and DuckDB have it"),
    Difference("test_the_start_of_a_month", "has no date_trunc", "PostgreSQL and DuckDB have it"),
]

# Responses that differ while both are correct.
FACTS: dict[str, dict[str, object]] = {
    # (status, codes): the specification does not say whether the body or the statement is wrong.
    "the code of errors that SQLite calls generic": {"service": "SQLITE_ERROR", "sqld": "SQLITE_UNKNOWN"},
    "bytes that are more than a value may have": {"service": 128 * MB + 1, "sqld": 5_000_001},
    "a value of invalid form": {"service": (200, ["ARGS_INVALID", "ok"]), "sqld": (400, None)},
}
