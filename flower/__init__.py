"""The only room that touches Flower's insides: one module a seam, and a table of what each needs (``seams.py``)."""
