"""The command ``mgw``: one module per subcommand."""
