"""The lock under which weights change."""

import threading

#: Several threads may call `reduce`. One lock for all objects, so that they can be copied and pickled.
LOCK = threading.RLock()
