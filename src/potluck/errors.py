"""What went wrong, said to the person who can mend it."""

__all__ = ["PotluckError"]


class PotluckError(Exception):
    """A fault of the input, not of the program: one line that names the field and the remedy.

    The command line prints it without a traceback and exits with 2.
    """
