"""Every process of pytest has its own lock of each device, so that tests may run beside each other, and beside a measurement."""

import os
import tempfile


def pytest_configure(config):
    config.addinivalue_line("markers", "thorough: a slow test that a change seldom breaks; runs with `make test-all`")


_locks = tempfile.TemporaryDirectory(prefix="ladder-locks-")  # removed when the process ends
os.environ["LADDER_LOCK_DIR"] = _locks.name
