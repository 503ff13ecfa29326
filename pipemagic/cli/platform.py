"""Which management API a command works on: the embedded service's, or one named in the environment."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING

from pipemagic.cli.credentials import Account, Credentials
from pipemagic.errors import AuthError

if TYPE_CHECKING:
    from pipemagic.client.management import Management

LOG_IN = "log in with `pipemagic auth login`, or put a platform token into PIPEMAGIC_API_TOKEN"


@contextmanager
def management(options: argparse.Namespace, *, anonymous: bool = False) -> Iterator[Management]:
    """Give the management API: of PIPEMAGIC_API_URL, else (or with --data) of the embedded service.

    The embedded service is started if it does not run. The token is that of the environment (for a service that is
    named there), else of the account that is logged in, else of the data folder; none if ``anonymous``. The
    organization is that of --org, else the one switched to, else the account's own.
    """
    with _embedded(options, anonymous) if on_this_machine(options) else _hosted(options, anonymous) as api, api:
        try:
            yield api
        except AuthError as error:
            if error.status == 401 and not anonymous:
                error.hint = LOG_IN
            raise


def on_this_machine(options: argparse.Namespace) -> bool:
    """Whether a command works on the embedded service."""
    from pipemagic.session.secrets import API_URL

    return options.data is not None or not os.environ.get(API_URL)


def service_key(options: argparse.Namespace) -> str:
    """Give the key under which `Credentials` remembers the service of a command."""
    if not on_this_machine(options):
        from pipemagic.client import urls
        from pipemagic.session.secrets import API_URL

        return urls.parse(os.environ[API_URL]).address.rstrip("/").removesuffix("/v1")
    from pipemagic import local

    return f"data:{options.data or local.default_folder()}"


def memory_key(options: argparse.Namespace) -> str:
    """Give the key under which `Credentials` remembers whom a command works for.

    Whoever brings a token in the environment may be another account than the one that is logged in, with
    organizations of its own.
    """
    key = service_key(options)
    if on_this_machine(options):
        return key
    from pipemagic.session.secrets import PLATFORM_TOKENS, Environment

    token = Environment(os.environ).token(None, PLATFORM_TOKENS)
    return key if token is None else f"{key}#{sha256(token.encode()).hexdigest()[:16]}"


def remembered(options: argparse.Namespace) -> Account:
    """Give what is remembered of whom a command works for."""
    return Credentials().get(memory_key(options))


@contextmanager
def _embedded(options: argparse.Namespace, anonymous: bool) -> Iterator[Management]:
    from pipemagic import local
    from pipemagic.client.management import Management

    known = remembered(options)
    with local.ensure(options.data) as lease:
        service = lease.service
        token = "" if anonymous else known.token or service.platform_token()
        own = known.organization or ("" if known.token else service.organization)
        yield Management(service.url, token, organization=_organization(options) or own or None)


@contextmanager
def _hosted(options: argparse.Namespace, anonymous: bool) -> Iterator[Management]:
    from pipemagic.client.management import Management
    from pipemagic.session.secrets import API_URL, Environment
    from pipemagic.session.services import hosted

    known = remembered(options)
    slug = _organization(options) or known.organization or None
    if anonymous:
        yield Management(os.environ[API_URL], organization=slug)
    else:
        yield hosted(Environment(os.environ), None, slug, else_token=known.token, hint=LOG_IN)


def _organization(options: argparse.Namespace) -> str:
    return getattr(options, "org", None) or ""
