"""Adapters for frameworks, one module each. A module imports its framework; nothing else does."""
