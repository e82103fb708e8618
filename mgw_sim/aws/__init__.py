"""Amazon's side: signatures and the keys that they are made with, Bedrock, and what gives out keys."""
