"""Exercises that check themselves, and classes: magics, a panel and commands."""
