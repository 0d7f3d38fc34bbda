"""One run of a fleet: connections, rounds, injected faults and measurements."""

import asyncio
import json
import time
from collections import Counter
from itertools import count

from cryptography.hazmat.primitives.asymmetric import ec

from aoi_fl.client.state import written_together
from aoi_fl.lab.benchmarks.base import APP, Skipped
from aoi_fl.lab.benchmarks.fleet import kills
from aoi_fl.lab.benchmarks.fleet.link import failure, superlink
from aoi_fl.lab.benchmarks.fleet.node import Traffic, VirtualNode
from aoi_fl.lab.benchmarks.fleet.scenario import Played
from aoi_fl.lab.benchmarks.fleet.virtual import channels, public_pem
from aoi_fl.lab.simulated_time.traces import GENERATED, make_trace

_CHANNELS = 16
_SENT = [
    "clients",
    "per_round",
    "coordination",
    "timeout",
    "round_seconds",
    "late_rounds",
    "buffer",
    "model",
    "packing",
]
_IDLE = frozenset({"PullMessages", "SendNodeHeartbeat"})  # calls of idle nodes, too
_LOOKS = _IDLE | {"GetNodes", "SendTaskHeartbeat"}
_AT_ONCE = 64  # nodes that connect at the same time
_START = 600.0  # seconds until the ServerApp says that it begins: on a busy machine its imports take their time
_LOOK = 0.2  # seconds between two polls of the ServerApp's notes
_MIDDLE = 0.7  # seconds after a round's end, when the next one is under way
_CHECK = 15  # polls between two looks at whether the run is still going


def play(scenario):
    """Run a scenario with a new SuperLink.

    Clients' states stay in memory, because each device of a real fleet has its own disk.
    """
    with superlink(scenario.server) as link, written_together():
        return asyncio.run(Play(scenario, link).run())


class Play:
    """A run of a fleet in progress."""

    def __init__(self, scenario, link):
        self.scenario, self.link, self.traffic = scenario, link, Traffic()
        self.nodes = []
        self.found = Played(scenario)
        self._marks = []  # the lines of the ServerApp's notes, with the resources used so far
        self._first = 0 if scenario.joining else 1  # the first of the quiet rounds; 0: not yet
        self._notes = link.folder / "notes"

    @property
    def round(self):
        """The last complete round."""
        return max((mark.get("round", 0) for mark in self._marks), default=0)

    @property
    def _last(self):
        return self._first + self.scenario.rounds - 1

    async def run(self):
        """Run it and return the measurements."""
        await self._connect()
        scenario = self.scenario
        least = scenario.start if scenario.joining else scenario.clients
        settings = {"what": "fleet.server:play", "rounds": scenario.all_rounds, "out": str(self._notes), "least": least}
        settings |= {name.replace("_", "-"): getattr(scenario, name) for name in _SENT}
        text = " ".join(f"{k}={json.dumps(v)}" for k, v in settings.items())
        joining = asyncio.create_task(self._join())
        try:
            await self._follow(await asyncio.to_thread(self.link.submit, APP, text))
        finally:
            joining.cancel()
            await asyncio.gather(*(node.stop() for node in self.nodes))
            await asyncio.gather(*(channel.close() for channel in self._channels))
        self.link.measure()
        self._sum_up()
        return self.found

    async def _connect(self):
        scenario = self.scenario
        keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(scenario.clients)]
        begun = time.monotonic()
        await asyncio.to_thread(list, map(self.link.control.register, map(public_pem, keys)))
        self.found.registered = time.monotonic() - begun
        lines = self._channels = channels(self.link.fleet, self.link.authority, min(_CHANNELS, scenario.clients))
        seconds = make_trace(GENERATED, len(keys), 1).speed if scenario.phones else [0.0] * len(keys)
        how = scenario.behaviour, self.link.folder, self.traffic, {}
        self.nodes = [VirtualNode(i, lines[i % len(lines)], key, *how, float(seconds[i])) for i, key in enumerate(keys)]
        begun = time.monotonic()
        first = self.nodes[: scenario.start if scenario.joining else None]
        for i in range(0, len(first), _AT_ONCE):
            some = first[i : i + _AT_ONCE]
            for node in some:
                node.start()
            await asyncio.gather(*(node.active.wait() for node in some))
        self.found.connected = time.monotonic() - begun

    async def _join(self):
        """Start the nodes that join during the run, and note the first round with all of them."""
        joining, start = self.scenario.joining, self.scenario.start
        waiting, due = self.nodes[:start], time.monotonic()
        for node in self.nodes[start:] if joining else ():
            due += self.scenario.round_seconds / joining
            await asyncio.sleep(due - time.monotonic())
            while len(waiting := [node for node in waiting if not node.asked.is_set()]) >= 2 * joining:
                await asyncio.sleep(_LOOK)
                due = time.monotonic()
            node.start()
            waiting.append(node)
        for node in waiting:
            await node.asked.wait()
        self._first = self.round + 1

    async def _follow(self, run_id):
        """Record each complete round, and inject the faults in their rounds, until the run or its time is over."""
        control, rest = self.link.control, ""
        try:
            async with asyncio.timeout(_START) as limit:
                with open(self._notes, "a+", encoding="utf-8") as notes:
                    notes.seek(0)
                    for turn in count(1):
                        *lines, rest = (rest + notes.read()).split("\n")
                        for line in map(json.loads, lines):
                            if not self._marks:
                                limit.reschedule(asyncio.get_running_loop().time() + self.scenario.seconds)
                            if await self._is_over(line):
                                return
                        if turn % _CHECK == 0 and (failed := await asyncio.to_thread(failure, control, run_id)):
                            log = await asyncio.to_thread(control.log, run_id)
                            raise Skipped(f"the run has {failed}. {log}"[:1500])
                        for node in self.nodes:
                            node.check()
                        await asyncio.sleep(_LOOK)
        except TimeoutError:
            if not self._marks:
                raise Skipped(f"the ServerApp did not begin: {self.link.log_tail()}") from None
            if not limit.expired():
                raise

    async def _is_over(self, line):
        """Record a line of the ServerApp's notes, inject the fault of its round, and return whether it is the last."""
        scenario, found = self.scenario, self.found
        used = {"bytes": self.traffic.bytes, "superlink": self.link.cpu, "own": time.process_time()}
        self._marks.append(line | used | {"node calls": Counter(self.traffic.calls)})
        faults = {scenario.rounds + kills.ROUNDS * i: kill for i, kill in enumerate(scenario.faults)}
        if (kill := faults.get(line.get("round", 0))) is not None:
            number = sum(name.startswith(kill.__name__) for name in found.kills)
            await asyncio.sleep(_MIDDLE)
            seen = await kill(self)
            found.kills[f"{kill.__name__}{f' {number + 1}' * bool(number)}"] = {"round": self.round + 1, **seen}
        found.complete = "ended" in line or bool(scenario.joining and self._first and self.round >= self._last)
        return found.complete

    def _sum_up(self):
        found, marks, scenario = self.found, self._marks, self.scenario
        rounds = {mark["round"]: mark for mark in marks if "round" in mark}
        found.superlink_peak, found.failed = self.link.peak, self.traffic.failed
        found.serverapp_peak = max(mark["peak"] for mark in marks)
        found.trained = sum(mark["trained"] for mark in rounds.values())
        answered = {round_: set(mark["outcomes"]) for round_, mark in rounds.items()}
        for round_, mark in rounds.items():
            found.late += list(mark["outcomes"].values()).count("late")
            for name, late in mark["rounds_late"].items():
                answered[round_ - late].add(name)
        found.lost = sum(len(self.traffic.sent.get(round_, set()) - names) for round_, names in answered.items())
        for kill in found.kills.values():
            kill["seconds"] = rounds.get(kill["round"], {}).get("seconds", float("nan"))
        met = [mark for mark in marks if "met" in mark]
        if newcomers := sum(mark["met"] for mark in met):
            found.newcomer_cpu = 1000 * (met[-1]["superlink"] - marks[0]["superlink"]) / newcomers
            found.greeted = met[-1]["time"] - marks[0]["time"] if newcomers >= scenario.clients else None
        quiet = [rounds[r] for r in range(self._first, self._last + 1) if r in rounds] if self._first else []
        if quiet:
            found.first = quiet[0]["time"] - marks[0]["time"]
            found.rounds = [mark["seconds"] for mark in quiet[1:]]
        if found.rounds:
            self._sum_up_quiet(quiet[0], quiet[-1], sum(mark["trained"] for mark in quiet[1:]))

    def _sum_up_quiet(self, before, after, trained):
        """Note what the quiet rounds after the first have taken."""
        found = self.found
        used = {key: after[key] - before[key] for key in ("time", "superlink", "cpu", "own", "bytes", "node calls")}
        seconds, calls = used["time"], used["node calls"]
        found.requests = {kind: count / seconds for kind, count in sorted(calls.items())}
        found.between = sum(found.requests.get(kind, 0.0) for kind in _IDLE)
        found.superlink_cpu, found.serverapp_cpu, found.own_cpu = (
            used[key] / seconds for key in ("superlink", "cpu", "own")
        )
        if trained:
            found.client_cpu = 1000 * used["superlink"] / trained
            asked = Counter(after["calls"]) - Counter(before["calls"]) + calls
            found.client_calls = 1 + sum(n for kind, n in asked.items() if kind not in _LOOKS) / trained
        found.bytes = used["bytes"] / len(found.rounds)
