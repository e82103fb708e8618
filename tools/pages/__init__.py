"""What is read from the text of the pages: their blocks, commands and shell sessions, and their English."""
