"""What is kept beside and in the logs, in statements that SQLite and PostgreSQL understand alike."""
