"""Where servers differ from the contract, as data: each line is checked by running the test all the same."""

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
    """What the server does."""
    reason: str
    """Why the contract is another one."""
    server: str = "sqld"

    mended: bool = False
    """Whether our engine in front of sqld does as the contract says, although sqld alone does not."""

    def applies(self, name: str, server: str | None) -> bool:
        same = server == "on_sqld_engine" and self.server == "sqld" and not self.mended
        if server != self.server and not same:
            return False
        plain, _, parameters = name.partition("[")
        wanted, _, inner = self.test.partition("[")
        if plain != wanted:
            return False
        return not inner or fnmatchcase(
            parameters.removesuffix("]").removeprefix(f"{server}-"), inner.removesuffix("]")
        )


SEED = "the requirement says so"
SPEC = "the specification says so"
OURS = "our addresses: the service is only ever on loopback, and other people's names must not lead to it"

DIFFERENCES = [
    # Routes.
    Difference("test_protobuf_is_not_offered", "offers it", "no client needs Protobuf, so we offer JSON only"),
    Difference("test_a_foreign_host_is_refused", "takes the first label of any host name for a database's name", OURS),
    Difference("test_at_the_service_s_own_address_the_token_names_the_database", "goes by the host name alone", OURS),
    Difference("test_a_stream_may_change_between_both_addresses_and_versions", "has no second address", OURS),
    # Tokens.
    Difference(
        "test_a_refusal_carries_message_and_code_too", "sends `error` only", "clients differ in which member they read"
    ),
    Difference(
        "test_a_token_made_before_its_database_was_made_again_is_void",
        "names the database in the token, so an old token opens a new database of that name",
        "who deletes a database takes its tokens back",
        mended=True,
    ),
    Difference(
        "test_a_deleted_database_starts_empty_when_it_is_made_again",
        "answers 200: the token and the name are good again",
        "who deletes a database takes its tokens back",
        mended=True,
    ),
    Difference(
        "test_a_baton_is_worth_nothing_with_the_token_of_another_subject",
        "ties a baton to nobody",
        "whoever sees a baton could go on in somebody's transaction",
    ),
    Difference(
        "test_a_baton_is_worth_nothing_with_a_token_of_other_rights",
        "ties a baton to nobody",
        "whoever may only read must not commit or roll back what others have written",
    ),
    Difference(
        "test_a_baton_is_worth_nothing_at_another_database",
        "lets a baton of one database work with a token of another",
        "a token is for one database",
    ),
    Difference(
        "test_a_token_of_another_database_is_404_and_gives_nothing_away",
        "answers 401: each database has a key of its own, and does not know that of another",
        "the name of a database that the token is not for must not be given away; a 401 does not",
        server="on_sqld_engine",
    ),
    Difference(
        "test_the_token_is_checked_with_a_baton_too",
        "answers 401 to a token of another database, as it does without a baton",
        "the name of a database that the token is not for must not be given away; a 401 does not",
        server="on_sqld_engine",
    ),
    # Pipelines and requests.
    Difference(
        "test_a_malformed_body_is_400_as_a_line_of_text[duplicate keys]",
        "takes the last of them",
        "our JSON reader does not look for them; no client sends any",
        server="in_process",
    ),
    Difference(
        "test_a_malformed_body_is_400_as_a_line_of_text[duplicate keys]",
        "takes the last of them",
        "our JSON reader does not look for them; no client sends any",
        server="on_port",
    ),
    Difference(
        "test_nothing_of_a_malformed_pipeline_runs[unknown1]",
        "notices a statement without text when its turn comes; what stood before is applied",
        "a request that cannot run is refused before anything does",
    ),
    Difference(
        "test_requests_after_a_close_get_an_error_each",
        "answers 400 for the whole pipeline; what ran is applied and its results are lost",
        "the requirement wants one result for each request",
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
        "test_version_2_does_not_know_autocommit",
        "answers 400 when its turn comes; what stood before is applied",
        "a request that cannot run is refused before anything does",
    ),
    # Statements and batches.
    Difference("test_of_two_statements_nothing_runs[SELECT 1; SELEC]", "drops a broken tail", "half a text is no text"),
    Difference(
        "test_columns_follow_a_change_of_the_schema",
        "keeps the columns of an empty result from before the change",
        "a result's columns are those of its rows",
    ),
    Difference("test_without_wanted_rows_there_are_none", "ignores want_rows", SPEC),
    Difference("test_a_condition_decides_over_its_step[error skipped]", "takes a skipped step for a failed one", SPEC),
    Difference(
        "test_every_optional_field_may_be_null", "answers 400 to null arguments", "null stands for an absent key"
    ),
    Difference(
        "test_a_condition_decides_over_the_step_of_a_cursor[error skipped]",
        "takes a skipped step for a failed one",
        SPEC,
    ),
    Difference(
        "test_a_condition_decides_over_the_step_of_a_cursor[not error skipped]",
        "takes a skipped step for a failed one",
        SPEC,
    ),
    Difference("test_without_wanted_rows_a_cursor_has_none_of_that_step", "ignores want_rows", SPEC),
    Difference(
        "test_an_unparsable_step_is_an_error_of_its_own",
        "parses all steps first and fails the whole batch",
        "which step it was must be told",
    ),
    # Values.
    Difference(
        "test_random_doubles_come_back_bit_by_bit",
        "reads every third double one unit in the last place off",
        "values are exact",
    ),
    Difference(
        "test_text_that_is_not_utf8_is_an_error_of_its_statement",
        "answers 500 and the stream is lost",
        "one bad cell must not cost a transaction",
    ),
    # Cursors, compression.
    Difference("test_a_cursor_has_only_the_entries_of_the_specification", "adds a `replication_index` entry", SPEC),
    Difference("test_the_last_rowid_of_a_step_is_a_string", "sends a number, which is not exact beyond 2^53", SPEC),
    Difference(
        "test_a_syntax_error_is_an_entry_and_leaves_the_transaction_alone",
        "answers 500; stream and transaction are lost",
        "which step it was must be told, and a typing error must not cost a transaction",
    ),
    Difference("test_text_that_is_not_utf8_is_an_entry", "cuts the answer", "an answer is never cut without a word"),
    Difference(
        "test_a_read_only_token_gets_403_and_nothing_is_sent",
        "answers 200 and cuts the answer",
        "an answer is never cut without a word",
    ),
    Difference("test_a_small_answer_is_not_compressed", "compresses everything", "it costs time and saves none"),
    # Limits and windows.
    Difference("test_a_body_beyond_the_limit_is_413", "has no limit", "a body is held in memory"),
    Difference(
        "test_a_transaction_is_rolled_back_after_5_seconds_though_nobody_else_writes",
        "enforces the window only when another stream wants to write",
        SEED,
    ),
    # What libSQL adds to SQL, and what tools read.
    Difference(
        "test_the_list_of_databases_has_one_row_without_a_path",
        "lists `temp`, too, and the path of the file",
        "a client must not learn the paths of the server; tools expect the one database they are connected to",
    ),
    Difference(
        "test_a_transaction_that_only_reads",
        "begins an ordinary transaction; writes are applied",
        "a transaction that is begun to read must not write",
    ),
    Difference(
        "test_a_changed_constraint_returns_no_columns",
        "is built on SQLite 3.45, which has neither statement",
        "SQLite 3.53 has both",
    ),
    Difference(
        "test_the_rest_of_the_table_stays_as_it_is_written",
        "replaces the column up to the first comma, also one in parentheses",
        "a definition that breaks the table must not be written",
    ),
    Difference(
        "test_an_index_follows_a_new_collation",
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
        "changes the expression; existing rows keep what the old one gave",
        "a generated column has the value of its expression",
    ),
    Difference(
        "test_a_stream_that_only_queries_alters_no_column",
        "alters it",
        "PRAGMA query_only stops every change of a file",
    ),
    Difference("test_a_regular_expression", "has no REGEXP", "SQLite's own extension comes with apsw"),
]

# Where both ways are right: what each server says.
FACTS: dict[str, dict[str, object]] = {
    # (status, codes): the specification does not say whether it is the body or the statement that is wrong.
    "the code of errors that SQLite calls generic": {"service": "SQLITE_ERROR", "sqld": "SQLITE_UNKNOWN"},
    "bytes that are more than a response may have": {"service": 128 * MB, "sqld": 10 * MB},
    "bytes that are more than a value may have": {"service": 128 * MB + 1, "sqld": 5_000_001},
    "a value out of form": {"service": (200, ["ARGS_INVALID", "ok"]), "sqld": (400, None)},
}
