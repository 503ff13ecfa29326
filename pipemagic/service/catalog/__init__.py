"""The catalog: accounts, organizations, groups, databases, their tokens and usage."""
