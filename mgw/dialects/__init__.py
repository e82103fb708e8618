"""Wire form to canonical form and back.  Pure."""
