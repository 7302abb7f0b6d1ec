"""Runs in figures: one, many, and the text formats they are scraped in."""
