"""A run as OpenTelemetry's spans, events and measures, by names that stand in one place. Nothing here exports."""
