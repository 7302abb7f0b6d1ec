"""Is anybody to be told: rules held against runs as they end, and when somebody is told again."""
