"""What a run is called whose app gives it no name."""

from collections import Counter

_begun: Counter[int] = Counter()


def next_name(run_id: int) -> str:
    """Return a name made from Flower's run id, another one for each of our runs that one of Flower's plays in turn.

    Clients keep their state by the run's name: under one name the second would find them as the first has left them.
    """
    _begun[run_id] += 1
    return f"flwr-{run_id}" + (f"-{_begun[run_id]}" if _begun[run_id] > 1 else "")
