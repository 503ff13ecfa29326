"""Parse SQLite text: tokens, statements, positions and names. Nothing is run."""

from pipemagic.sql.identifiers import normalize, quote, unquote
from pipemagic.sql.positions import caret, character_offset, position
from pipemagic.sql.statement import HIGHEST_PARAMETER, ParsedStatement, is_complete, parse, split, statements_of
from pipemagic.sql.tokenizer import FIRST_LETTER, LETTER, Token, significant, tokens

__all__ = [
    "FIRST_LETTER", "HIGHEST_PARAMETER", "LETTER", "ParsedStatement", "Token", "caret", "character_offset",
    "is_complete", "normalize", "parse", "position", "quote", "significant", "split",
    "statements_of", "tokens", "unquote",
]  # fmt: skip
