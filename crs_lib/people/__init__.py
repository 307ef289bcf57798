"""People: what they say, what they think of replies, and how far scores agree with them."""
