"""Which limits of the guards past runs recommend: probed, chosen, and shown."""
