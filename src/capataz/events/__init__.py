"""What happened: the facts, and how they are written down."""
