"""Recognize names whose letters another program has replaced, by a wrong encoding."""

from __future__ import annotations

import re

_NO_LETTERS = re.compile("[?\N{REPLACEMENT CHARACTER}§¶¤¢£¥€±¬√∞≤≥∂∫≈◊÷×¼½¾]")
"""What programs write for a letter that an encoding lacks, or read for one; no name has these."""

_OF_MAC = re.compile("[a-z][ŠŽŸŒ]|[A-Z][ŠŽŸŒ][a-z]")
"""Mac OS Roman read as Windows-1252, as in ``MŸller``: these capitals, which begin words, are inside of one."""

_SINGLE = "\xc3\xc4\xc5"
"""The first bytes of é, č and ł in UTF-8; a sequence with another one counts if a second one follows."""


def has_wrong_letters(name: str) -> bool:
    """Return True for ``?ukasz``, for ``MÃ¼ller`` and for ``MŸller``: the letters are not those of the name."""
    return bool(_NO_LETTERS.search(name) or _OF_MAC.search(name)) or any(
        _is_utf8(word, encoding) for word in name.split() for encoding in ("cp1252", "cp1250", "mac_roman")
    )


def _is_utf8(word: str, encoding: str) -> bool:
    """Return True if a word was UTF-8 that was read in another encoding."""
    data = b"".join(_bytes(letter, encoding) for letter in word).decode("latin-1")
    for match in _UTF8.finditer(data):
        letters = zip(match[0], word[match.start() : match.end()], strict=True)  # a byte for each letter of the word
        capitals = any(letter.isupper() for byte, letter in letters if byte < "\xc0")
        if not (word.isupper() and capitals):  # ``PĂŞCANU`` and ``KŘÍŽ`` are names
            return True
    return False


_UTF8 = re.compile(
    f"[{_SINGLE}][\x80-\x9f\xa1-\xbf]|\xc2[\xa1-\xbf]|(?:[\xc6-\xdf][\x80-\xbf]){{2}}|[\xe1-\xef][\x80-\xbf]{{2}}"
)
"""Sequences of UTF-8 for letters, one byte in a character; \\xa0 is a space of which names have none."""


def _bytes(letter: str, encoding: str) -> bytes:
    """Return the byte of a letter; a space for one that the encoding lacks, except for control characters."""
    try:
        return letter.encode(encoding)
    except UnicodeEncodeError:
        return letter.encode("latin-1") if "\x80" <= letter < "\xa0" else b" "
