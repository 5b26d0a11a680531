"""The checker behind every annotation of the package while tests run; as in the language, an int will do for a float."""

from beartype import BeartypeConf, beartype

__all__ = ["check"]

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
