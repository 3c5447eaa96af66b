"""Access to HTTP paths beside the API, each by a setting of its own: the log level, the state, and the REST API."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request

from schedulerd.config import HttpAccess, Settings
from schedulerd.daemon.admin.api.access import Access
from schedulerd.daemon.admin.api.tokens import Role

ROLES: Mapping[str, Role] = {
    "http_loglevel": Role.OPERATE,
    "http_debug_state": Role.VIEW,
    "http_rest": Role.VIEW,
    "http_rest_operate": Role.OPERATE,
}
"""The role that is needed for what a setting guards, unless the setting opens it to all."""

_OPEN_TO_PAGES = frozenset({"http_rest", "http_rest_operate"})
"""What is open to web pages of other sites, and under any name, if it is on: as in YuniKorn."""


class Gate:
    """Checks requests as the settings say."""

    def __init__(self, settings: Settings, access: Access) -> None:
        self._settings = settings
        self._access = access

    def check(self, setting: str, request: Request) -> None:
        """`setting` is the name of the setting for this path and method. Raises `HTTPException` with 400, 401, 403 or
        421."""
        given: HttpAccess = getattr(self._settings, setting)
        match given:
            case HttpAccess.OFF:
                what = f"{request.method} {request.url.path}"
                raise HTTPException(403, f"{what} is off: the setting {setting} is off; auto, token and on turn it on")
            case HttpAccess.AUTO | HttpAccess.TOKEN:
                try:
                    self._access.check(request, ROLES[setting], anonymous=given is HttpAccess.AUTO)
                except HTTPException as refused:
                    detail = f"{refused.detail}; the setting {setting} is {given}"
                    raise HTTPException(refused.status_code, detail, refused.headers) from refused
            case HttpAccess.ON if setting not in _OPEN_TO_PAGES:
                self._access.check_request(request)
