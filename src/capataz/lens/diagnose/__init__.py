"""What went wrong in recorded runs: findings, pointers and totals. Pure; only the page renderer loads a template."""
