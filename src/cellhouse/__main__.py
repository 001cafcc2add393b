"""`python -m cellhouse` is the command line."""

from cellhouse.cli import main

main()
