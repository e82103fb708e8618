"""One YAML file, checked.  Pure."""
