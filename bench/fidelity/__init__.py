"""What a gateway loses on the way: bytes within an API, fields between two."""
