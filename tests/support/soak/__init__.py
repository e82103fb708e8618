"""A soak: mixed exchanges through a gateway process; each must leave one event and get its own answer."""
