"""Labelled histories of our own: written and labelled by people's judgement first, scored afterwards."""
