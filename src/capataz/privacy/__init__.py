"""What must not leave: one `Mask` at every exit, and placeholders that can be undone.

Pure: no clock, no chance, no input or output. See `mask` for what is found and `pseudonyms` for what comes back.
"""
