"""The native kernel: IPython behind one socket and two pipes. Standard library and IPython only, Python 3.9 and later."""
