"""All keys of a run, and what follows from them."""

from aoi_fl.config.groups import Budget, Clock, Coordination, Output, Privacy, Round, Selection
from aoi_fl.learning.settings import TaskSettings
from aoi_fl.server.over_selection import over_selected


class RunKeys(TaskSettings, Selection, Coordination, Round, Privacy, Budget, Clock, Output, extra="forbid"):
    """Every key of a run: the groups of :mod:`aoi_fl.config.groups` together."""

    @property
    def sent(self) -> int:
        """How many clients are sent the model in a round, over-selection included."""
        return over_selected(self.clients_per_round, self.over_selection)

    @property
    def sent_as(self) -> str:
        """What messages call that number."""
        return "clients-per-round" + (" times over-selection" if self.over_selection > 1 else "")

    @property
    def trackers(self) -> list[str]:
        """The trackers that ``track`` names."""
        return self.track.split(",") if self.track else []
