"""One run as a tree a person can read: folded once, shown as JSON, as a page, and in the terminal."""
