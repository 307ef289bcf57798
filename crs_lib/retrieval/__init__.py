"""Rankings of texts: lexical, dense, fused."""
