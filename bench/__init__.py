"""Measurements: Cellhouse beside stock ipykernel, interleaved in one run, and what its goals say of the figures."""
