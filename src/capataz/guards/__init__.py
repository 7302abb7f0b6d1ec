"""What goes wrong: pure machines over events, each watching for one way a run fails."""
