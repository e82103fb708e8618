"""Generators of the schema and of the parts of the documents that say what the code says."""
