"""One YAML file, validated.  Pure."""
