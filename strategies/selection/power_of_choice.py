"""Power-of-Choice (Cho, Wang & Joshi 2022): of candidates drawn by size, those with the highest losses."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message
from flwr.serverapp import Grid
from numpy.typing import NDArray

from aoi_fl.science.power_of_choice import PowerOfChoice
from aoi_fl.strategies.collect import drop
from aoi_fl.strategies.guard import Refused, check_metrics, loss_of, metrics_of
from aoi_fl.strategies.plan import Plan
from aoi_fl.strategies.records import Participation
from aoi_fl.strategies.selection.central import seed_of
from aoi_fl.strategies.selection.learned import LearnedSelection
from aoi_fl.wire import protocol
from aoi_fl.wire.protocol import Ask


class ReportedChoice(LearnedSelection):
    """π_rpow-d: losses are those that came with each client's last update, of the model as it was then.

    Parameters
    ----------
    per_round : k
    candidates : d; 0: 2k
    """

    selector: PowerOfChoice

    def __init__(self, per_round: int, candidates: int = 0, **settings: Any) -> None:
        selector = PowerOfChoice(per_round, seed_of(settings), candidates or 2 * per_round)
        super().__init__(selector, **settings)

    @classmethod
    def by_keys(cls, keys: Mapping[str, Any], **settings: Any) -> Self:
        """Return the strategy for a run's keys."""
        return cls(keys["clients-per-round"], keys["candidates"], **settings)

    def parameters(self) -> dict[str, Any]:
        """Return the policy's kind, k and d."""
        return super().parameters() | {"candidates": self.selector.candidates}

    def choose(self, ask: Ask, grid: Grid) -> Plan:
        """Let the selector choose, once it is known by what sizes it draws candidates."""
        self.roster.sizes_of_all("the draw of candidates", or_equal=True)
        return super().choose(ask, grid)


class AskedChoice(ReportedChoice):
    """π_pow-d: the candidates evaluate the round's model before it is decided who trains on it.

    They are sent what an evaluation sends, and answer as their function for ``evaluate`` does, with a loss on their own
    data: d models more a round go out. Who does not answer is no candidate, and is named in the round's record.
    """

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Keep the model, which candidates are to evaluate."""
        self._arrays = arrays
        return super().configure_train(server_round, arrays, config, grid)

    def choose(self, ask: Ask, grid: Grid) -> Plan:
        """Let the candidates evaluate the model, and choose among them."""
        self.selector.ask = lambda round_, candidates: self._losses(candidates, ask, grid)
        return super().choose(ask, grid)

    def _losses(self, candidates: NDArray[np.int64], ask: Ask, grid: Grid) -> NDArray[np.float64]:
        found = dict.fromkeys(candidates.tolist(), np.nan)
        nodes = [self.roster.node(client) for client in found]
        drafts = self._aggregation.to_evaluate(ask.round, self._arrays, ConfigRecord(), nodes, grid)
        messages = self._dispatch.messages(protocol.EVALUATE, drafts, dict.fromkeys(nodes, ask))

        def take(client: int, reply: Message) -> bool:
            try:
                found[client] = self._loss(reply)
            except Refused as reason:
                self._pass_over(client, "failed" if reply.has_error() else "refused", str(reason))
                return False
            return True

        timeout = self.options.evaluate_timeout
        replies = self._send(grid, messages, self.options.ask_timeout if timeout is None else timeout, one_by_one=False)
        for client in self._take(replies, take):
            self._pass_over(client, "late", "no evaluation by the deadline")
        self._record.asked += len(nodes)
        return np.array([found[client] for client in candidates.tolist()])

    def _loss(self, reply: Message) -> float:
        """Return the mean loss that a candidate reports, or raise :class:`Refused`."""
        check_metrics(reply, self.options.weighted_by_key)
        metrics = metrics_of(reply.content, self.options.weighted_by_key)
        loss = None if metrics is None else loss_of(metrics)
        if loss is None:
            raise Refused("its evaluation tells no loss")
        return loss

    def _pass_over(self, client: int, outcome: str, reason: str) -> None:
        drop(self._record, Participation(client, self.roster.name(client), outcome, reason=reason))
