"""HTTP/1.1 without I/O (RFC 9112), for both sides: bytes in, heads and bodies out, and back."""
