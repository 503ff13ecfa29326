"""Results <-> DataFrames. pandas is imported by the functions, not by the import; `writing` imports it."""

from pipemagic.frames.reading import Note, to_frame

__all__ = ["Note", "to_frame"]
