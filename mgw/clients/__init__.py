"""Who has which of the gateway's own keys, and how much of its limits each has used."""
