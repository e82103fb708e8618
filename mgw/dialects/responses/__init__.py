"""OpenAI's Responses, whose items a stateless gateway translates; its errors and its meter are OpenAI's."""
