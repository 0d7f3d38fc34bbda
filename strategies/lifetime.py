"""When a run begins and how it ends, told to observers that want to know."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

F = TypeVar("F", bound=Callable[..., Any])


@runtime_checkable
class RunObserver(Protocol):
    """An observer that is also told of the beginning and the end of :meth:`AgeAwareStrategy.start`."""

    def run_begins(self, policy: dict[str, Any], rounds: int) -> None:
        """Take note of the policy's parameters and of how many rounds there are to be."""

    def run_ends(self, stopped: str | None, error: BaseException | None) -> None:
        """Take note of the end: complete if there is neither a reason to stop nor an error."""


def witnessed(start: F) -> F:
    """Let a strategy's ``start`` tell its observer, if that wants to know, when it begins and how it ends."""

    @wraps(start)
    def told(self: Any, grid: Any, initial_arrays: Any, num_rounds: int = 3, *rest: Any, **settings: Any) -> Any:
        observer = self.observer
        if not isinstance(observer, RunObserver):
            return start(self, grid, initial_arrays, num_rounds, *rest, **settings)
        observer.run_begins(self.parameters(), num_rounds)
        try:
            result = start(self, grid, initial_arrays, num_rounds, *rest, **settings)
        except BaseException as error:
            observer.run_ends(None, error)
            raise
        observer.run_ends(self.stopped, None)
        return result

    return cast(F, told)
