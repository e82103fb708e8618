"""The drawings of the documents (``docs/images``), as SVG: a function for each returns the file's text."""
