"""Results <-> DataFrames. pandas is imported by the functions, not by the import."""

from pipemagic.frames.reading import Note, to_frame
from pipemagic.frames.writing import Column, from_frame

__all__ = ["Column", "Note", "from_frame", "to_frame"]
