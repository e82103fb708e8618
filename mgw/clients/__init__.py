"""Gateway keys: who has which, and how much of its limits each has used."""
