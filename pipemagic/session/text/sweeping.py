"""UPDATE and DELETE that go over a whole table because they have no WHERE: asked about before anything is sent."""

from __future__ import annotations

from pipemagic.errors import ConfirmError
from pipemagic.session.cells import Cell
from pipemagic.session.text.heads import Head, head


def refuse_sweeps(cell: Cell) -> None:
    """ConfirmError if a statement of the cell changes or deletes all rows of a table."""
    for index, statement in enumerate(cell.statements):
        if statement.keyword not in ("UPDATE", "DELETE", "WITH"):
            continue
        sent = cell.sent(index)
        if table := swept(sent):
            number = f"statement {cell.before + index + 1} of {cell.total}, " if cell.total > 1 else ""
            does = "changes" if head(sent).verb == "UPDATE" else "deletes"
            raise ConfirmError(
                f"{number}{cell.place(index, 0).where}: this {head(sent).verb} has no WHERE and {does} all rows of "
                f"{table}; nothing was sent",
                hint="write --confirm behind %%sql or %sql if that is what you want, or add a WHERE",
            )


def swept(text: str) -> str:
    """Give the name, as it is written, of the table whose rows an UPDATE or DELETE takes without WHERE; '' for none."""
    statement = head(text)
    if statement.verb not in ("UPDATE", "DELETE") or "WHERE" in statement.outer_words():
        return ""
    return _table(statement) or "a table"


def _table(statement: Head) -> str:
    number = 1
    if statement.verb == "DELETE":
        number = 2  # FROM
    elif statement.word(1) == "OR":
        number = 3
    name = "".join(token.text for token in statement.words[number : number + 1])
    if [token.text for token in statement.words[number + 1 : number + 2]] == ["."]:
        name = "".join(token.text for token in statement.words[number : number + 3])
    return name
