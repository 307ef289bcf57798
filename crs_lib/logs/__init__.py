"""Conversations of others."""
