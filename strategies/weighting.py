"""Aggregation weights ω of a round's clients, under every policy.

auto      the policy's own: data sizes, times drawn, or equal
equal     ω_i = 1
size      ω_i = d_i, the number of examples that the client declares or else reports
unbiased  ω_i = q_i / r_i on updates, with the client's rate r_i and q_i = d_i / Σ_j d_j over the members, among which
          the rates are shared. E[ω_i] = q_i if the client achieves r_i; the weights of a round need not sum to 1
          (Horvitz-Thompson). If clients come and go, deciding clients achieve it under ``compensate=availability``, and
          under oldest-age they do not; f3ast learns its rates, see :mod:`aoi_fl.lab.rivals.f3ast`.

All but the last are divided by their sum over the updates that count.
"""

AUTO, EQUAL, SIZE, UNBIASED = "auto", "equal", "size", "unbiased"
KINDS = (AUTO, EQUAL, SIZE, UNBIASED)
