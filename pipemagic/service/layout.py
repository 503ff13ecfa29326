"""File names and paths that the service shares with its clients. Imports nothing, so that it is quick to import."""

from __future__ import annotations

# In the data folder.
RUNTIME_FILE = "service.json"  # url, port, pid, host, version, organization (and public_url) of the running service
LOCK_FILE = "service.lock"  # held as long as the service runs
LOOK_LOCK_FILE = "look.lock"  # held while a process checks whether the service runs
START_LOCK_FILE = "start.lock"  # held while a process starts the service
LOG_FILE = "service.log"
PORT_FILE = "port"  # of the last start
KEY_FILE = "signing-key.pem"
PLATFORM_TOKEN_FILE = "platform-token"

# At the service's own address.
LEASE_PATH = "/pipemagic/lease"
STOP_PATH = "/pipemagic/stop"
METRICS_PATH = "/metrics"
