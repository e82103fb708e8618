"""Signed tokens (JWT) of identity providers: what they contain, and whether they are valid."""
