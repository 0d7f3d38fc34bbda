"""Fakes that tests share: a scripted grid, a toy app, an observer that records, and a federation made of them."""

import math
from functools import partial

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from aoi_fl.client import ClientApp
from aoi_fl.flower.messages import send
from aoi_fl.lab.simulated_time.availability import Availability
from aoi_fl.protocol.clock import MACHINE
from aoi_fl.server.checkpoint import Checkpoint, Checkpoints
from aoi_fl.server.engine.local import LocalGrid
from aoi_fl.strategies import RandomSelection, RoundOptions
from aoi_fl.strategies.plan import Resume

MODEL = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([0.5, -0.5]), "steps": np.array(3)}
HOSTILE = 1  # the client that misbehaves
TRAIN, ASK, HELLO, EVALUATE = "train", "query.participate", "query.hello", "evaluate"
HUNG = -1  # a client that does no work


class Notes:
    """An observer that keeps everything; after a round in ``kill``, or each if it is True, it ends the server.

    ``state_dict`` is the last one and ``memories`` has all of them by round, as checkpoints would hold them.
    """

    def __init__(self, kill=()):
        self.clients, self.rounds, self.models, self.kill = [], [], [], kill
        self.memories = {}
        self.grid = self.strategy = self.result = None

    def clients_seen(self, clients):
        self.clients += clients

    def round_done(self, record, arrays, memory):
        self.rounds.append(record)
        self.memories[record.round] = {name: np.array(array) for name, array in memory.items()}
        self.models.append(values(arrays))
        if self.kill is True or record.round in (self.kill or ()):
            raise KeyboardInterrupt

    @property
    def state_dict(self):
        return self.memories[self.rounds[-1].round] if self.rounds else {}

    @property
    def arrays(self):
        return record_of(self.models[-1])

    @property
    def parts(self):
        """The participations of all rounds, in their order."""
        return [part for record in self.rounds for part in record.participations]

    def column(self, name):
        """Return an entry of each round's record."""
        return [getattr(record, name) for record in self.rounds]

    def resume(self, after=None):
        """Return what a run resumes with after a round, by default the last."""
        after = self.rounds[-1].round if after is None else after
        return Resume(after + 1, self.clients, self.memories[after])

    def of_outcome(self, outcome):
        """Return the clients with an outcome, by round."""
        return [sorted(p.client for p in r.participations if p.outcome == outcome) for r in self.rounds]

    def trained(self):
        """Return the clients that each round has trained."""
        return self.of_outcome("trained")


class Kept(Notes):
    """Notes that keep checkpoints in files, as a run does."""

    def __init__(self, folder):
        super().__init__()
        self.checkpoints = Checkpoints(folder)

    def round_done(self, record, arrays, memory):
        self.checkpoints.save(Checkpoint(record.round, values(arrays), memory))
        super().round_done(record, arrays, memory)

    def reloaded(self, round_):
        """Return model and memory after a round, from its file."""
        found = self.checkpoints.load(round_)
        return record_of(found.model), Resume(round_ + 1, self.clients, found.memory)


class ScriptedGrid(LocalGrid):
    """A grid that notes its messages; its clients connect and reply as scripts say.

    ``present(grid)`` returns the numbers of the connected clients; the grid knows the ``round`` of its newest message
    and the ``notes`` of its observer. ``script(kind, round, client)`` returns after how many batches of messages the
    reply arrives: 0 is in time. ``takes`` returns in the same way the seconds until a reply is there, by ``clock``.
    Before the first message of round ``cut`` the server ends. ``heard`` sees, and may change, each reply that is
    pulled.
    """

    clock = MACHINE

    def __init__(self, app, config, nodes, *how, present=None, script=None, takes=None, cut=None, notes=None):
        super().__init__(app, config, nodes, *how)
        self.nodes, self.present, self.script, self.cut, self.notes = list(self._contexts), present, script, cut, notes
        self.round, self.batch, self.takes = 0, 0, takes
        self.sent = []  # kind, round, client
        self.records = []  # what each message says in the protocol
        self.replies = []
        self.about = {}
        self._due, self._done, self._from = {}, {}, {}

    def get_node_ids(self):
        return super().get_node_ids() if self.present is None else [self.nodes[i] for i in self.present(self)]

    def push_messages(self, messages):
        messages = list(messages)
        about = [self._about(message) for message in messages]
        if self.cut in {round_ for _, round_, _ in about}:
            raise KeyboardInterrupt
        self.round = max([self.round, *(round_ for _, round_, _ in about)])
        self.sent += about
        self.records += [dict(message.content.get("aoi", {})) for message in messages]
        ids = list(super().push_messages(messages))
        self.batch += bool(ids)
        for i, each in zip(ids, about, strict=True):
            self.about[i] = each
            delay = self.script(*each) if self.script else 0
            self._due[i] = math.inf if delay == HUNG else self.batch + delay, delay == HUNG
            self._from[i] = self.clock.now() + self.takes(*each) if self.takes else -math.inf
        return ids

    def pull_messages(self, message_ids):
        replies = [self.heard(r, *self.about[r.metadata.reply_to_message_id]) for r in self._pull(message_ids)]
        self.replies += replies
        return replies

    def heard(self, reply, kind, round_, client):
        return reply

    def _pull(self, message_ids):
        message_ids = [i for i in message_ids if self.clock.now() >= self._from.get(i, -math.inf)]
        if self.script is None:
            return super().pull_messages(message_ids)
        replies = []
        for i in message_ids:
            due, hung = self._due.get(i, (math.inf, True))
            if not hung and i in self._waiting:  # the client does its work at once
                self._done[i] = super().pull_messages([i])
            if i in self._done and self.batch >= due:
                replies += self._done.pop(i)
        return replies

    def whom(self, kind, *rounds):
        """Return the clients that were sent a kind of message in some rounds, sorted."""
        return sorted(client for k, round_, client in self.sent if k == kind and round_ in rounds)

    @property
    def updates(self):
        return [reply for reply in self.replies if reply.metadata.message_type == TRAIN]

    def rounds(self, kind, client):
        """Return the rounds in which a client was sent a kind of message."""
        return [round_ for k, round_, c in self.sent if (k, c) == (kind, client)]

    def _about(self, message):
        metadata, aoi = message.metadata, message.content.get("aoi", {})
        round_ = aoi["round"] if "round" in aoi else int(metadata.group_id or 0)
        return metadata.message_type, round_, self.nodes.index(metadata.dst_node_id)


class ToyApp(ClientApp):
    """An app whose clients train by a formula and note what they are sent.

    ``learn(array, client, round)`` returns the trained array. ``examples`` and ``loss`` are numbers or functions of the
    client, and so is ``evaluates``, the loss of an evaluation. ``declares(client)`` is its introduction.
    ``spoil(message, act)`` answers in the client's place, ``act`` as the client itself does.
    """

    def __init__(self, learn=None, *, examples=10, loss=1.0, declares=None, evaluates=None, spoil=None, mods=()):
        super().__init__()
        self.learn, self.examples, self.loss, self.evaluates = learn or plus_one, examples, loss, evaluates
        self.spoil, self.sent = spoil, []
        self.train(mods=list(mods))(self._fit)
        if evaluates is not None:
            self.evaluate()(self._judge)
        if declares is not None:
            self.introduce()(lambda context, ask: declares(context.node_config["partition-id"]))

    def __call__(self, message, context):
        self.sent.append(about := (*of(message), context.node_config["partition-id"]))
        act = partial(super().__call__, message, context)
        return act() if self.spoil is None else self.spoil(message, act, *about)

    def _fit(self, message, context):
        client, round_ = context.node_config["partition-id"], message.content["config"].get("server-round", 0)
        arrays = self.trained(values(message.content["arrays"]), client, round_)
        message.content["arrays"] = ArrayRecord()  # what a client does to its message is its own affair
        return reply_of(message, self._metrics(client, self.loss), record_of(arrays))

    def trained(self, arrays, client, round_):
        return {name: self.learn(array, client, round_) for name, array in arrays.items()}

    def _judge(self, message, context):
        return reply_of(message, self._metrics(context.node_config["partition-id"], self.evaluates))

    def _metrics(self, client, loss):
        examples, loss = (value(client) if callable(value) else value for value in (self.examples, loss))
        return {"num-examples": int(examples)} | ({} if loss is None else {"loss": float(loss)})


class Counting(ClientApp):
    """An app that counts its trainings, and fails while it is ``broken``."""

    def __init__(self):
        super().__init__()
        self.trained, self.broken = 0, False
        self.train()(self._counted)

    def _counted(self, message, context):
        if self.broken:
            raise RuntimeError("out of memory")
        self.trained += 1
        return Message(RecordDict({"metrics": MetricRecord({"num-examples": 5})}), reply_to=message)


def slow(*cases):
    """Return cases of a test that `make test` leaves out, because others stand for them."""
    return [pytest.param(*case, marks=pytest.mark.slow) for case in cases]


def request(kind, terms, **records):
    """Return a message with terms as a server sends it to a client."""
    return send(Message(RecordDict({"aoi": ConfigRecord(terms.write()), **records}), 99, kind), "m")


def plus_one(array, client, round_):
    return array + array.dtype.type(1)


def unchanged(array, client, round_):
    return array


def sines(array, client, round_):
    """Return an array whose sums depend on the order of summation."""
    return (array * 0.9 + np.sin(np.arange(array.size) * (client + 1) + round_)).astype(array.dtype)


def of(message):
    """Return kind and round of a message."""
    aoi = message.content.get("aoi", {})
    return message.metadata.message_type, aoi.get("round", int(message.metadata.group_id or 0))


def reply_of(message, metrics, arrays=None):
    content = {} if arrays is None else {"arrays": arrays}
    return Message(RecordDict(content | {"metrics": MetricRecord(metrics)}), reply_to=message)


def record_of(arrays):
    return ArrayRecord({name: Array(np.asarray(array)) for name, array in arrays.items()})


def spells(rng, present, away, until):
    """Return spells in which a device is present, by their mean length and that of the gaps."""
    ends = np.cumsum(rng.exponential([present, away] * 60))
    pairs = zip([0.0, *ends[1::2]], ends[::2], strict=False)
    return [(float(a), float(b)) for a, b in pairs if b < until]


def availability(spells, period):
    """Return the availability of clients that are present in these spells, (begin, end), of each period."""
    begins, ends = np.array([spell for each in spells for spell in each], float).reshape(-1, 2).T.copy()
    return Availability(np.cumsum([0, *map(len, spells)]), begins, ends, period)


def zeros(count=2):
    """Return a model of so many zeros."""
    return record_of({"w": np.zeros(count, np.float32)})


# A federation whose result is known ----------------------------------------------------------------------------------


def steps_of(partition):
    """Return what one round of training adds to the model on this client."""
    return {
        "w": np.full((2, 3), partition + 1, np.float32),
        "b": np.array([0.25 * partition, 1.0]),
        "steps": np.array(2),
    }


def examples_of(partition):
    return 10 * (partition + 1)


class Honest(ToyApp):
    def trained(self, arrays, client, round_):
        return {name: array + steps_of(client)[name] for name, array in arrays.items()}

    def _judge(self, message, context):
        reply = super()._judge(message, context)
        reply.content["metrics"]["accuracy"] = 0.5
        return reply


def honest_app(spoil=None):
    declares = lambda client: {"num-examples": examples_of(client)}  # noqa: E731
    losses = {"loss": lambda client: 1.0 + client, "evaluates": float}
    return Honest(examples=examples_of, declares=declares, spoil=spoil, **losses)


def hostile_app(spoil, kinds=("train",), whom=(HOSTILE,)):
    """Return an app whose clients ``whom`` answer messages of these kinds with what ``spoil`` makes of them."""
    return honest_app(
        lambda message, act, kind, round_, client: spoil(message, act) if kind in kinds and client in whom else act()
    )


def model():
    return record_of(MODEL)


def values(arrays):
    return {k: v.numpy() for k, v in arrays.items()}


def play(
    make,
    app,
    folder,
    rounds=2,
    nodes=4,
    grid=ScriptedGrid,
    notes=None,
    start=None,
    resume=None,
    evaluate_fn=None,
    **options,
):
    """Run rounds and return the notes, which have the ``strategy``, its ``result`` and the ``grid``, too."""
    notes = Notes() if notes is None else notes
    options = {"run": "r", "seed": 3, "deterministic": True, "join_timeout": 0.2, "evaluate_clients": 0} | options
    notes.strategy = make(options=RoundOptions(**options), observer=notes, resume=resume)
    notes.grid = grid(app, {"runs-dir": str(folder), "seed": options["seed"]}, nodes)
    notes.grid.notes = notes
    notes.result = notes.strategy.start(notes.grid, start or model(), rounds, evaluate_fn=evaluate_fn)
    return notes


def everyone(**settings):
    return RandomSelection(4, **settings)


def expected(clients, rounds):
    """Return the model after rounds in which these clients took part, weighted by their examples."""
    sizes = np.array([examples_of(c) for c in clients], float)
    return {
        k: v + rounds * sum(s * steps_of(c)[k] for c, s in zip(clients, sizes / sizes.sum(), strict=True))
        for k, v in MODEL.items()
    }


def same_model(arrays, wanted):
    found = values(arrays)
    assert list(found) == list(MODEL)
    for key, value in wanted.items():
        assert found[key].dtype == MODEL[key].dtype and found[key].shape == MODEL[key].shape
        np.testing.assert_allclose(found[key], value, rtol=1e-6)


# What a client may do in place of its work ---------------------------------------------------------------------------


def with_arrays(change):
    """Send what ``change`` makes of the update's arrays, by name."""

    def spoil(message, act):
        reply = act()
        arrays = change(values(reply.content["arrays"]))
        reply.content["arrays"] = ArrayRecord({k: v if isinstance(v, Array) else Array(v) for k, v in arrays.items()})
        return reply

    return spoil


def with_w(change):
    """Send what ``change`` makes of the update's array w."""
    return with_arrays(lambda arrays: arrays | {"w": change(arrays["w"])})


def with_metrics(**metrics):
    def spoil(message, act):
        reply = act()
        reply.content["metrics"] = MetricRecord({k.replace("_", "-"): v for k, v in metrics.items()})
        return reply

    return spoil


def with_record(key, record):
    """Send another record under a key; None: no record."""

    def spoil(message, act):
        reply = act()
        if record is None:
            del reply.content[key]
        else:
            reply.content[key] = record
        return reply

    return spoil


def with_answer(**changes):
    """Change fields of our own record; None: leave the field out."""

    def spoil(message, act):
        reply = act()
        record = {**reply.content["aoi"], **changes}
        reply.content["aoi"] = ConfigRecord({key: value for key, value in record.items() if value is not None})
        return reply

    return spoil


def raises(error):
    def spoil(message, act):
        raise error

    return spoil
