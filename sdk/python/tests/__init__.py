"""Tests of the package, with nothing but the standard library: python -m unittest discover -s tests -t ."""
