"""Parse SQLite text: tokens, positions, statements and names. Nothing is run."""

from pipemagic.sql.definition import Definition, parse_definition, terminated
from pipemagic.sql.identifiers import folded, normalize, quote, table_name, unquote, without_comments
from pipemagic.sql.statement import (
    HIGHEST_PARAMETER,
    OPTIONAL,
    SHELL_SETTINGS,
    ParsedStatement,
    each,
    is_complete,
    parse,
    split,
    statements_of,
)
from pipemagic.sql.tokenizer import (
    FIRST_LETTER,
    LETTER,
    Token,
    caret,
    character_offset,
    position,
    significant,
    tokens,
)

__all__ = [
    "FIRST_LETTER", "HIGHEST_PARAMETER", "LETTER", "OPTIONAL", "SHELL_SETTINGS", "Definition", "ParsedStatement",
    "Token", "caret", "character_offset", "each", "folded", "is_complete", "normalize", "parse", "parse_definition",
    "position", "quote", "significant", "split", "statements_of", "table_name", "terminated", "tokens", "unquote",
    "without_comments",
]  # fmt: skip
