"""Exercises that check themselves, and classes: a plugin with magics, a panel, commands and help."""

from pipemagic.plugins import Plugin

plugin = Plugin(
    magics=("pipemagic.teaching.magics:ExerciseMagics",),
    settings="pipemagic.teaching.magics:Settings",
    panels={"class": "pipemagic.teaching.panel:ClassPanel"},
    commands={
        "exercises": "pipemagic.teaching.exercises.commands:exercises",
        "class": "pipemagic.teaching.classes.commands:class_",
    },
    topics="pipemagic.teaching:topics.md",
    pages={"exercises": "teachers/exercises", "class": "teachers/classes"},
    start="pipemagic.teaching.classes.progress:start",
)
