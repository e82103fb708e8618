"""What translation makes of every field of a request, and the tables of it in ``docs/translation.rst``."""
