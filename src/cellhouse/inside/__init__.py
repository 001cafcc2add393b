"""What runs inside a sandbox: standard library only, Python 3.9 or later, importing nothing of the rest."""
