"""Run code in live Jupyter kernels inside sandboxes, and be told the truth about what happened."""

__version__ = "0.1.0"
