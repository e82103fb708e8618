"""Meaning without bytes: conversations, replies, features.  Pure."""
