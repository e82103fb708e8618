"""Pictures of the dashboard for the documents, taken of a running gateway (``make screenshots``)."""
