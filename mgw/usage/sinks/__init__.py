"""Where usage events go."""
