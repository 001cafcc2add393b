"""Configuration: every setting of a service as one typed model, its value, and where that came from."""
