"""A client's status for the device's owner: whether it may take part now, and what has left the device."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from aoi_fl.client.device import checks
from aoi_fl.client.device.enroll import NODE, read_node
from aoi_fl.client.device.node import check
from aoi_fl.client.gate.book import GateState
from aoi_fl.client.gate.gate import LEAVES
from aoi_fl.client.gate.rules import PAUSE, UPDATES, Rules
from aoi_fl.client.promises import Device, Forbidden
from aoi_fl.science.privacy.account import epsilon_of


def status(folder: Path, now: datetime | None = None) -> Iterator[str]:
    """Yield lines about the client of a folder made by ``aoi enroll``.

    Raises
    ------
    ConfigError : the folder is not a client's, or a key or rule is invalid.
    """
    now = now or datetime.now()
    node = read_node(folder)
    name, state_dir = str(node["name"]), Path(str(node["state-dir"]))
    rules = check(node)
    rule = rules.forbids(now)
    why = f", by its owner's rule: {rule} in {folder / NODE}"
    yield f"{name} may take part now" if rule is None else f"{name} does not take part now{why}"
    if not state_dir.exists():
        yield f"it has not run yet: there is no {state_dir}"
        return
    gate, state, entries = checks.gate(state_dir, now.timestamp())
    for finding in (checks.state(state_dir), gate, checks.disk(state_dir)):
        if finding.status == "fail":
            yield f"{finding.check}: {finding.found}. {finding.remedy}"
    if state is not None:
        yield from _gate(state, entries, rules, now, Device(state_dir, name, durable=True))


def _gate(
    state: GateState, entries: Iterable[dict[str, Any]], rules: Rules, now: datetime, device: Device
) -> Iterator[str]:
    """Yield what the owner's gate has let out, and when it opens again."""
    if not state.apps:
        yield "its gate has seen no message yet"
    left = "" if rules.max_updates is None else f", {max(0, rules.max_updates - state.updates)} more may leave"
    if state.updates or left:
        yield f"updates that have left the device: {state.updates}{left}"
    opens = rules.opens(max(now, datetime.fromtimestamp(state.last + 3600 * rules.min_hours) if state.last else now))
    if opens is None or (rules.max_updates is not None and state.updates >= rules.max_updates):
        after = f"no training may follow, by {PAUSE if opens is None else UPDATES}"
    else:
        after = "the next training may be " + ("now" if opens == now else f"at {opens:%Y-%m-%d %H:%M}")
    if state.updates or state.runs:
        yield after
    try:
        promises = device.load().runs
    except Forbidden as error:
        promises = {}
        yield f"its promises cannot be read: {error}"
    for key, run in state.runs.items():
        gap = f", not before round {run.last + rules.min_separation}" if rules.min_separation > 1 and run.last else ""
        at = f", the last at {datetime.fromtimestamp(run.at):%Y-%m-%d %H:%M}" if run.at else ""
        about = f"{run.updates} updates{at}{left}; {after}{gap}"
        yield f"run {run.name or key} at {run.server}, app {run.app[:12]}: {about}"
        if (promise := promises.get(run.name)) and promise.mu and promise.delta:
            updates = sum(other.updates for other in state.runs.values() if other.name == run.name)
            epsilon = epsilon_of(math.sqrt(updates) * promise.mu, promise.delta)
            spent = f"ε = {epsilon:.4g} at δ = {promise.delta:g}"
            yield f"run {run.name}: {spent}, if the server adds the noise that it announced"
    prevented = Counter[str]()
    for entry in (*entries, *state.repeats.values()):
        if entry["rule"] and entry["decision"] not in LEAVES:
            prevented[entry["rule"]] += entry["times"]
    for rule, messages in prevented.items():
        yield f"messages declined by {rule}: {messages}"
