"""Names that the service and whoever looks for it agree on. Imports nothing, so that looking costs nothing."""

from __future__ import annotations

# In the data folder.
RUNTIME_FILE = "service.json"  # url, port, pid, host, version, organization (and public_url) of what runs
LOCK_FILE = "service.lock"  # held as long as the service runs
LOOK_LOCK_FILE = "look.lock"  # held by whoever looks whether it runs
START_LOCK_FILE = "start.lock"  # held by whoever starts it
LOG_FILE = "service.log"
PORT_FILE = "port"  # of last time
KEY_FILE = "signing-key.pem"
PLATFORM_TOKEN_FILE = "platform-token"

# At the service's own address.
LEASE_PATH = "/pipemagic/lease"
STOP_PATH = "/pipemagic/stop"
METRICS_PATH = "/metrics"
