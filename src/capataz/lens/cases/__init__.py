"""Labelled histories: read, and checked for mistakes in the labels."""
