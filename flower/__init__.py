"""The only room that uses Flower's internals, which ``seams.py`` lists."""
