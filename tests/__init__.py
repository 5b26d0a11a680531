"""What checks every annotation of the package while tests run; an int will do for a float, as in the language."""

from beartype import BeartypeConf, beartype

__all__ = ["check"]

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
