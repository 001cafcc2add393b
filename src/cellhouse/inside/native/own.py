"""The standard library as it is when the kernel is loaded.

Code replaces its functions: to freeze the time, for a test, by mistake. The kernel's own work goes on with those that were
there before. What the user's code is to notice (a wrapper, `sys.stdout`) is set in the real modules.
"""

from __future__ import annotations

import importlib
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import _thread as _thread
    import base64 as base64
    import datetime as datetime
    import json as json
    import math as math
    import mmap as mmap
    import numbers as numbers
    import os as os
    import select as select
    import signal as signal
    import socket as socket
    import threading as threading
    import time as time
    import traceback as traceback
else:

    def _as_it_is(name: str) -> Any:
        module = importlib.import_module(name)
        kept = types.ModuleType(name)
        kept.__dict__.update(vars(module))
        return kept

    _thread, base64, datetime, json, math, mmap, numbers = map(
        _as_it_is, ("_thread", "base64", "datetime", "json", "math", "mmap", "numbers")
    )
    os, select, signal, socket, threading, time, traceback = map(
        _as_it_is, ("os", "select", "signal", "socket", "threading", "time", "traceback")
    )
