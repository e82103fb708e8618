"""Price lists of others as files of prices: LiteLLM's and that of models.dev."""
