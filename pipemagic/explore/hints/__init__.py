"""What a failed statement means, and what to write instead: causes of syntax errors, SQL of other databases."""
