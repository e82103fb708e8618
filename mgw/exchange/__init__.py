"""One HTTP request, from its model to its last byte."""
