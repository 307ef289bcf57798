"""Simulated users with a plan, in conversation with systems."""
