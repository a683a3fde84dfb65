"""JAX, imported when it is first used: a fit with built-in kernels and likelihoods may never need it.

`jax` and `jnp` stand for the modules; `jit` and `custom_jvp` for the decorators, which wait for the first call.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from npvi.runtime.forks import ForkedProcessError, in_children, jax_has_threads

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    from jax.scipy.special import erf, gammaln, log_ndtr, logsumexp, ndtr

__all__ = ["custom_jvp", "erf", "gammaln", "jax", "jit", "jnp", "log_ndtr", "logsumexp", "ndtr", "when_jax_is_there"]


#: holds something in a process that was forked from one whose JAX had threads already
_forked: list[bool] = []


class _Module:
    """A module that is imported when something of it is asked for."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def __getattr__(self, name: str) -> Any:
        if name == "_name" or name.startswith("__"):  # of an object that is only being made, by copy or pickle
            raise AttributeError(name)
        if _forked:
            raise ForkedProcessError
        value = getattr(importlib.import_module(self._name), name)
        self.__dict__[name] = value  # the next time it is found without coming here
        return value


class _Decorated:
    """What a decorator of JAX makes of a function, made at the first use."""

    def __init__(self, decorator: str, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self._decorator, self._function, self._options = decorator, function, options
        self._rules: list[tuple[str, tuple[Any, ...]]] = []
        self.__doc__, self.__name__ = function.__doc__, function.__name__
        self.__module__, self.__wrapped__ = function.__module__, function

    @property
    def _made(self) -> Any:
        if _forked:
            raise ForkedProcessError
        made = self.__dict__.get("_kept")
        if made is None:
            made = getattr(jax, self._decorator)(self._function, **self._options)
            for method, arguments in self._rules:
                getattr(made, method)(*arguments)
            self.__dict__["_kept"] = made
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._made(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in ("_decorator", "_function", "_options", "_rules") or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._made, name)

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """As of `jax.custom_jvp`."""
        self._rules.append(("defjvp", (rule,)))
        return rule

    def defjvps(self, *rules: Callable[..., Any] | None) -> None:
        """As of `jax.custom_jvp`."""
        self._rules.append(("defjvps", rules))


def jit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`jax.jit` with options, as a decorator."""
    return lambda function: _Decorated("jit", function, options)


def custom_jvp(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`jax.custom_jvp` with options, as a decorator."""
    return lambda function: _Decorated("custom_jvp", function, options)


def when_jax_is_there(task: Callable[[], None]) -> None:
    """Do something now if JAX is imported, else as soon as it is, whoever imports it."""
    if "jax" in sys.modules and not _hook.waiting:
        task()
        return
    _hook.waiting.append(task)
    if _hook not in sys.meta_path:
        sys.meta_path.insert(0, _hook)


class _Hook:
    """Finds JAX as anybody else would, and sees to what waits for it once it is imported."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "jax":
            return None
        finders = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(name, path, target) for finder in finders)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
        return spec

    def imported(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        waiting, self.waiting = self.waiting, []
        for task in waiting:
            task()


class _Loader:
    """Another loader, and what comes after it."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _hook.imported()


_hook: Any = _Hook()


def _forget_jax() -> None:
    """In a forked process nothing of JAX can be used, not even what was found or compiled before."""
    if not jax_has_threads():
        return
    _forked.append(True)
    modules: tuple[Any, ...] = (jax, jnp, globals()["_special"])
    for module in modules:
        kept = {name: value for name, value in vars(module).items() if name == "_name"}
        module.__dict__.clear()
        module.__dict__.update(kept)


in_children(_forget_jax)

if not TYPE_CHECKING:
    jax, jnp = _Module("jax"), _Module("jax.numpy")
    _special = _Module("jax.scipy.special")

    def _of_special(name):
        return lambda *args, **kwargs: getattr(_special, name)(*args, **kwargs)

    erf, gammaln, log_ndtr, logsumexp, ndtr = map(_of_special, ("erf", "gammaln", "log_ndtr", "logsumexp", "ndtr"))
