"""CPython's own tests of the sqlite3 module, as far as they apply to a module that speaks to a server."""

from __future__ import annotations

import sys

from published_suites import FIGURES, Outcomes, run
from sqlite3_stand_in import NoSuite, sqlite3_suites

SUITES = ["test_dbapi", "test_transactions", "test_types"]

NOT_RUN = {
    "MultiprocessTests.*": "starts another Python, which imports sqlite3",
    "AutocommitAttribute.test_autocommit_disabled_implicit_shutdown": "starts another Python, which imports sqlite3",
    "ModuleTests.test_module_constants": "a server has no C interface to configure; its constants are in sqlite3",
    "ConnectionTests.test_connection_resource_warning": "a server closes an idle connection by itself",
    "TransactionTests.test_raise_timeout": "the server decides how long a statement waits for a lock",
    "TransactionTests.test_locking": "the server decides how long a statement waits for a lock",
    "SqliteTypeTests.test_too_large_string": "a server takes no body of 2 GiB",
    "SqliteTypeTests.test_too_large_blob": "a server takes no body of 2 GiB",
}
"""Tests that say nothing about `pipemagic.dbapi`, whether they pass or not."""

ANY_WORDS = ["ClosedConTests.*", "CursorTests.test_execute_multiple_statements"]
"""Tests that pass apart from the words of messages: an error of the class that they expect is raised."""

FILES = "a database is an address, not a file or memory, and is not read or written as bytes"
C_INTERFACE = "the C interface of an SQLite in the same process: functions, limits, blobs, callbacks, interrupts"
ADAPTERS = "there are no adapters, converters and factories: values and rows are those of the database"
PEP_249 = "PEP 249: all errors, also those of parameters and of a fetch without a query, are subclasses of Error"
CALLABLE = "calling a connection prepares a statement, which a server does not keep"
LAZY = "BEGIN is sent together with the first statement, so a transaction without one needs no requests"
THREADS = "a connection may be handed to another thread, as in sqlite3 with check_same_thread=False"

REASONS = {
    "ModuleTests.test_deprecated_version": "these names are deprecated",
    "ModuleTests.test_complete_statement": C_INTERFACE,
    "ModuleTests.test_disallow_instantiation": CALLABLE,
    "ModuleTests.test_error_code_on_exception": FILES,
    "ModuleTests.test_param_style": "`paramstyle` is named, because the dialect of SQLAlchemy and others prefer it",
    "ConnectionTests.test_connect_positional_arguments": "these arguments were always keywords only",
    "ConnectionTests.test_connection_bad_limit_category": C_INTERFACE,
    "ConnectionTests.test_connection_bad_reinit": FILES,
    "ConnectionTests.test_connection_config": C_INTERFACE,
    "ConnectionTests.test_connection_limits": C_INTERFACE,
    "ConnectionTests.test_connection_reinit": ADAPTERS,
    "ConnectionTests.test_connection_signature": CALLABLE,
    "ConnectionTests.test_failed_open": FILES,
    "ConnectionTests.test_interrupt*": C_INTERFACE,
    "ConnectionTests.test_use_after_close": C_INTERFACE,
    "UninitialisedConnectionTests.*": "a class in Python has no state without __init__",
    "SerializeTests.*": FILES,
    "OpenTests.*": FILES,
    "CursorTests.test_execute_named_param_and_sequence": "an error, as in Python 3.14: sqlite3 only warned before",
    "CursorTests.test_execute_non_iterable": "the message has other words",
    "CursorTests.test_execute_too_many_params": C_INTERFACE,
    "CursorTests.test_execute_with_appended_comments": "a comment that is not closed is an error, not ignored",
    "CursorTests.test_fetchone_no_statement": PEP_249,
    "CursorTests.test_total_changes": C_INTERFACE,
    "BlobTests.*": C_INTERFACE,
    "ThreadTests.test_check_*": THREADS,
    "ExtensionTests.test_cursor_executescript_too_large_script": C_INTERFACE,
    "ExtensionTests.test_cursor_executescript_with_null_characters": PEP_249,
    "ExtensionTests.test_cursor_executescript_with_surrogates": PEP_249,
    "ClosedConTests.test_closed_call": CALLABLE,
    "ClosedConTests.test_closed_create_*": C_INTERFACE,
    "ClosedConTests.test_closed_set_*": C_INTERFACE,
    "SqliteOnConflictTests.test_on_conflict_fail": PEP_249,
    "SpecialCommandTests.test_pragma": "the servers refuse this deprecated PRAGMA",
    "AutocommitAttribute.test_autocommit_disabled": LAZY,
    "AutocommitAttribute.test_autocommit_disabled_ctx_mgr": LAZY,
    "AutocommitAttribute.test_autocommit_disabled_executescript": LAZY,
    "AutocommitAttribute.test_autocommit_disabled_implicit_rollback": LAZY,
    "AutocommitAttribute.test_autocommit_disabled_then_enabled": LAZY,
    "AutocommitAttribute.test_autocommit_enabled_then_disabled": LAZY,
    "SqliteTypeTests.test_string_with_surrogates": PEP_249,
    "SqliteTypeTests.test_too_large_int": PEP_249,
    "BinaryConverterTests.*": ADAPTERS,
    "ColNamesTests.test_case_in_converter_name": ADAPTERS,
    "ColNamesTests.test_col_name": ADAPTERS,
    "DateTimeTests.*": ADAPTERS,
    "DeclTypesTests.test_bool": ADAPTERS,
    "DeclTypesTests.test_convert_zero_sized_blob": ADAPTERS,
    "DeclTypesTests.test_error_in_conform": ADAPTERS,
    "DeclTypesTests.test_float": ADAPTERS,
    "DeclTypesTests.test_foo": ADAPTERS,
    "DeclTypesTests.test_number*": ADAPTERS,
    "ObjectAdaptationTests.*": ADAPTERS,
}

OLD = {"ModuleTests.test_shared_cache_deprecated": C_INTERFACE}
"""Tests of older versions of Python."""

OF_SERVER = {
    "service": {},
    "sqld": {
        "CursorTests.test_rowcount_vaccuum": "sqld refuses VACUUM",
        "ModuleTests.test_extended_error_code_on_exception": "sqld reports the primary result code only",
    },
}


def test_the_suites_of_sqlite3(server, require_real, record_property, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcomes = Outcomes()
    try:
        with sqlite3_suites(server.create, SUITES, not_run=NOT_RUN, any_words=ANY_WORDS) as (suites, stand_in):
            for name, suite in suites.items():
                outcome = run(suite, after=stand_in.forget)
                record_property(FIGURES, f"sqlite3's {name} on {server.name}: {outcome.figure}")
                outcomes.add(outcome)
    except NoSuite as reason:
        require_real(str(reason))
    reasons = NOT_RUN | REASONS | OF_SERVER[server.name]
    outcomes.check(reasons | OLD)
    for line in outcomes.counts(reasons | OLD):
        record_property(FIGURES, line)
    if sys.version_info >= (3, 13):  # the newest one; older ones have fewer tests
        assert outcomes.unknown(reasons) == []
