"""Age-aware participation for a ``ClientApp`` whose class cannot be changed, as one that somebody's factory makes."""

import flwr.clientapp
from flwr.app import Context, Message

from aoi_fl.client.participation import ClientApp, checked
from aoi_fl.protocol import FORMER_CLIENT
from aoi_fl.science.errors import ConfigError


def attach(app: flwr.clientapp.ClientApp) -> ClientApp:
    """Return an app that meets an age-aware strategy, and has ``app`` train, evaluate and answer all else.

    What is registered with either counts, mods and lifespan included. Use what is returned: ``app`` itself stays as it
    is.

    Raises
    ------
    ConfigError
        It is no ``ClientApp``, or one of Flower's former interface.

    Examples
    --------
    >>> app = attach(flwr.clientapp.ClientApp())
    >>> @app.train()
    ... def train(message, context): ...
    """
    if not isinstance(app, flwr.clientapp.ClientApp):
        raise ConfigError(
            "app", app, "a ClientApp", "Give attach the ClientApp itself, not the function that makes it."
        )
    if getattr(app, "_call", None) is not None:  # what Flower makes of a client_fn
        raise ConfigError("app", "a ClientApp with a client_fn", "one of Flower's present interface", FORMER_CLIENT)
    return app if isinstance(app, ClientApp) else _Attached(app)


class _Attached(ClientApp):
    """An age-aware app in front of a plain one."""

    def __init__(self, app: flwr.clientapp.ClientApp) -> None:
        super().__init__()
        self._app = app
        # What is registered here is registered there.
        vars(self).update(train=app.train, evaluate=app.evaluate, query=app.query, lifespan=app.lifespan)

    def _play(self, message: Message, context: Context) -> Message:
        return checked(self._app(message, context), message)
