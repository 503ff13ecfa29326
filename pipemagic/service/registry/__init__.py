"""Who and what there is: accounts, organizations, groups, databases, their tokens, and what they used."""
