"""The aggregation weights ω of a round's clients, whichever policy chose them.

auto      the policy's own: data sizes, times drawn, or equal
equal     ω_i = 1
size      ω_i = d_i, the number of examples; of a client that declared none in the roll call, the number that it reports
unbiased  ω_i = q_i / r_i on updates, with r_i the rate at which client i takes part, and q_i = d_i / Σ_j d_j over those
          among whom the rates are shared: who is there, or has not left, or all. E[ω_i] = q_i exactly where r_i is the
          rate that the client achieves; in a round they need not sum to 1 (Horvitz-Thompson). Where clients come and go
          that takes ``absence=learned`` of those who decide for themselves, and it does not hold for oldest-age, which
          takes at once who was away; f3ast learns its rates, see :mod:`aoi_fl.science.f3ast`.

All but the last are divided by their sum over the updates that count.
"""

import numpy as np
from numpy.typing import NDArray

from aoi_fl.science.weighting import weigh

AUTO, EQUAL, SIZE, UNBIASED = "auto", "equal", "size", "unbiased"
KINDS = (AUTO, EQUAL, SIZE, UNBIASED)


def omega(
    kind: str,
    clients: NDArray[np.int64],
    own: NDArray[np.float64],
    sizes: NDArray[np.float64],
    rates: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """Return the weights of a round's clients, (s,).

    Parameters
    ----------
    kind : one of KINDS
    clients : (s,) their numbers
    own : (s,) the policy's own weights
    sizes : (n,) data sizes of all clients; NaN where unknown, which "unbiased" cannot take
    rates : (n,) how often each takes part, in participations a round; None: the policy cannot say

    Raises
    ------
    ConfigError
        Unbiased weights of a policy whose rates are not known, or of a client that never takes part.
    """
    match kind:
        case "equal":
            return np.ones(len(clients))
        case "size":
            return sizes[clients]
        case "unbiased":
            return weigh("unbiased", clients, sizes, rates)
        case _:
            return own
