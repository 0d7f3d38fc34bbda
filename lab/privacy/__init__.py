"""Bounds of epsilon with amplification, for `aoi privacy --amplified` and the experiments; no run counts them."""
