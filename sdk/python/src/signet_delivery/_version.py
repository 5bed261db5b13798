"""The version of the package, which is that of the service: `npm run docs` writes this file."""

__version__ = "0.4.0"
