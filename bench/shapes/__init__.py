"""Bodies that are hard to read, for each route: how long each holds the gateway, and what memory it takes."""
