"""The theorems' statements, computed another way."""
