"""What keeps the start of the process short, and its memory small.

A start imports hundreds of modules, and some of them hardly any gateway needs.  Two things are settled here;
the rest are imports inside functions, each with a comment.

The garbage collector goes through all objects again and again as modules add to them, and finds next to
nothing: a fifth of the time that they take.

Twisted's reactor imports pyOpenSSL, and with it all of cryptography (75 ms and 13 MiB), so that connections
could be upgraded by ``startTLS``.  Ours never are: providers are spoken to by Python's own ``ssl``, and the
listener puts :class:`TLSMemoryBIOFactory` around its channels.  Twisted works without pyOpenSSL, which is an
extra; whoever imports it afterwards gets all of it.

Twisted also imports ``http.cookiejar`` and takes no more than its name.  With it would come Python's own HTTP
client and its parser of mail (7 ms and 0.6 MiB).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import LazyLoader, find_spec, module_from_spec
from typing import Any, Final

_OPENSSL: Final = "OpenSSL"


@contextmanager
def without_collections() -> Iterator[None]:
    """Collect no garbage meanwhile, and never look later at what was made until then."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # else the next collection would go through all of it at once
        if was_enabled:
            gc.enable()


def import_when_used(name: str) -> None:
    """Have a module of a package imported when something looks into it.

    ``from package import module`` does not look into it; ``import package.module`` does.
    """
    spec = None if name in sys.modules else find_spec(name)
    if spec is None or spec.loader is None:
        return
    spec.loader = LazyLoader(spec.loader)
    sys.modules[name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)  # notes that it is to be imported
    package, _, own_name = name.rpartition(".")
    setattr(sys.modules[package], own_name, module)


@contextmanager
def without_openssl() -> Iterator[None]:
    """Let what is imported meanwhile, and can do without pyOpenSSL, take it for not installed."""
    modules: dict[str, Any] = sys.modules  # Any: ``None`` is what a module that must not be imported has
    if _OPENSSL in modules:
        yield
        return
    modules[_OPENSSL] = None
    try:
        yield
    finally:
        del modules[_OPENSSL]
