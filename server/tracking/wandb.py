"""Weights & Biases, offline: files in the folder ``wandb``, which ``wandb sync`` can upload.

A resumed run starts a new run of the tool with all rounds of the ledger. Its key ``resumes`` names the former run.
"""

import hashlib
import os
from collections.abc import Mapping

os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # before the import, so that it does not use the network

import wandb

from aoi_fl.server.tracking.base import Tracker


class WandB(Tracker):
    """Logs each number of a round in the history, and the configuration as wandb's."""

    tool, files = "Weights & Biases", ("wandb",)

    def _begin(self) -> int:
        former = [path.name.rpartition("-")[2] for path in sorted(self.folder.glob("wandb/offline-run-*"))]
        self._run = wandb.init(
            project="aoi-fl",
            id=hashlib.sha256(f"{self.name}{len(former) or ''}".encode()).hexdigest()[:16],
            name=self.name,
            group=self.name,
            dir=str(self.folder),
            config=self._config | ({"resumes": former[-1]} if former else {}),
            mode="offline",
            reinit="create_new",
            settings=wandb.Settings(
                silent=True, console="off", disable_git=True, disable_code=True, x_disable_stats=True
            ),
        )
        return 0

    def _log(self, round_: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=round_, commit=True)

    def _end(self, status: str) -> None:
        self._run.summary["status"] = status
        self._run.finish(exit_code=0 if status == "completed" else 1)
