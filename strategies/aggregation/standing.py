"""One configuration for a whole run, as in Flower's own loop, for a strategy that changes it as it goes."""

from typing import Any

from flwr.app import ConfigRecord


class Standing:
    """Lets a strategy find what it wrote a round ago, but where somebody else says otherwise meanwhile.

    A round may be configured twice, when nobody volunteered at first; the second time it is as at the first.
    """

    def __init__(self) -> None:
        self._round = 0
        self._record, self._given = ConfigRecord(), dict[str, Any]()
        self._before, self._was = self._record, self._given

    def in_round(self, round_: int, given: ConfigRecord) -> ConfigRecord:
        """Return the record, with what is given now and was not, or was another, a round ago."""
        if round_ != self._round:
            self._round, self._before, self._was = round_, self._record, self._given
        self._record, self._given = self._before.copy(), dict(given)
        for key in (self._was.keys() - self._given.keys()) & self._record.keys():
            del self._record[key]
        for key, value in self._given.items():
            if key not in self._was or self._was[key] != value:
                self._record[key] = value
        return self._record
