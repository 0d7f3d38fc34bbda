"""The source of a client's data, which have an age."""

from typing import Any

from aoi_fl.science.age import ClientAge


class Source:
    """The source of a client's examples; by default they age from refresh to refresh.

    ``first_age`` is their age before round 1.
    """

    first_age: int = 0

    def age(self, clock: ClientAge, round_: int) -> int:
        """Return the data's age before a round's decision; ``clock`` has the last refresh."""
        return clock.age(round_)

    def refresh(self, round_: int) -> None:
        """Renew the data, which are then of this round; the effect of an emulated refresh follows from its round."""

    def examples(self, task: Any, round_: int, age: int) -> Any:
        """Return the task's examples for training in a round with data of age Δ."""
        raise NotImplementedError
