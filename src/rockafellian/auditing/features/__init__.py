"""Inputs of a network from tables, texts and images."""
