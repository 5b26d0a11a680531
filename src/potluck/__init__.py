"""Potluck makes a cross-silo federation pay its members fairly for the data they bring."""

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("potluck-fl")
