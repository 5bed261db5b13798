"""The version of the package: that of the service."""

__version__ = "0.3.0"
