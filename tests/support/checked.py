"""Annotations are checked as the tests run."""

import beartype

NUMBERS = beartype.BeartypeConf(is_pep484_tower=True)  # integers are accepted for floats


def checked(function):
    """The function with its annotations checked by beartype. The sections of a config are left as
    they are: they check their fields themselves, and the tests want their messages.
    """
    own = function.__qualname__.endswith(("Config.__init__", "Resources.__init__"))
    return function if own else beartype.beartype(conf=NUMBERS)(function)
