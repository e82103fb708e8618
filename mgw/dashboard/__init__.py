"""The dashboard for operators: its API, its feed and its pages."""
