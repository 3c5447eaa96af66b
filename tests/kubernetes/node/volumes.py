"""The volumes of a pod as folders: emptyDir, configMap, secret and projected, kept up to date as by a kubelet."""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schedulerd.kubernetes.api.resources import CONFIG_MAPS
from tests.kubernetes.contract.api import Api

JSON = dict[str, Any]


class AtomicFolder:
    """Files that change together: each is a link to `..data/NAME`, and `..data` to a folder that is replaced."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True)
        self.path = path
        self._numbers = itertools.count(1)
        self._content: dict[str, bytes] | None = None

    def write(self, content: Mapping[str, bytes]) -> None:
        if self._content == content:
            return
        self._content = dict(content)
        folder = self.path / f"..{next(self._numbers)}"
        folder.mkdir()
        for name, data in content.items():
            (folder / name).write_bytes(data)
            if not (self.path / name).is_symlink():
                (self.path / name).symlink_to(Path("..data", name))
        link = self.path / "..data_tmp"
        link.symlink_to(folder.name)
        link.rename(self.path / "..data")
        for entry in self.path.iterdir():
            if entry.is_symlink() and not entry.exists():
                entry.unlink()


class Volumes:
    """Of one pod."""

    def __init__(self, api: Api, pod: JSON, folder: Path) -> None:
        self._api = api
        self._pod = pod
        self._folder = folder
        self._namespace = pod["metadata"]["namespace"]
        self._tokens: dict[str, bytes] = {}
        self._atomic: dict[str, AtomicFolder] = {}
        self.paths: dict[str, Path] = {}
        """By name of the volume."""

    async def refresh(self) -> bool:
        """Makes what is not there, and reads ConfigMaps again; whether all is there."""
        for volume in self._pod["spec"].get("volumes") or ():
            path = self._folder / volume["name"]
            if "emptyDir" in volume:
                path.mkdir(exist_ok=True, parents=True)
            else:
                content = await self._content(volume)
                if content is None:
                    return False
                if volume["name"] not in self._atomic:
                    self._atomic[volume["name"]] = AtomicFolder(path)
                await asyncio.to_thread(self._atomic[volume["name"]].write, content)
            self.paths[volume["name"]] = path
        return True

    async def _content(self, volume: JSON) -> dict[str, bytes] | None:
        """None if something of it does not exist."""
        match volume:
            case {"configMap": source}:
                return await self._config_map(source)
            case {"secret": source}:
                return await self._secret(source)
            case {"projected": {"sources": sources}}:
                found: dict[str, bytes] = {}
                for source in sources:
                    part = await self._projected(source)
                    if part is None:
                        return None
                    found |= part
                return found
        raise AssertionError(f"teach tests/kubernetes/node/volumes.py the volume {volume}")

    async def _projected(self, source: JSON) -> dict[str, bytes] | None:
        match source:
            case {"serviceAccountToken": wanted}:
                return {wanted["path"]: await self._token(wanted)}
            case {"configMap": wanted}:
                return await self._config_map(wanted)
            case {"downwardAPI": {"items": items}}:
                return {item["path"]: field_of(self._pod, item["fieldRef"]["fieldPath"]).encode() for item in items}
        raise AssertionError(f"teach tests/kubernetes/node/volumes.py the source {source}")

    async def _config_map(self, source: JSON) -> dict[str, bytes] | None:
        answer = await self._api.call("GET", CONFIG_MAPS.path(self._namespace, source["name"]))
        if answer.status != 200:
            return None
        data = {key: str(text).encode() for key, text in (answer.json.get("data") or {}).items()}
        if "items" not in source:
            return data
        if any(item["key"] not in data for item in source["items"]):
            return None
        return {item["path"]: data[item["key"]] for item in source["items"]}

    async def _secret(self, source: JSON) -> dict[str, bytes] | None:
        answer = await self._api.call("GET", f"/api/v1/namespaces/{self._namespace}/secrets/{source['secretName']}")
        data = answer.json.get("data") or {} if answer.status == 200 else {}
        wanted = source.get("items") or [{"key": key, "path": key} for key in data]
        found = {one["path"]: base64.b64decode(data[one["key"]]) for one in wanted if one["key"] in data}
        is_complete = answer.status == 200 and len(found) == len(wanted)
        return found if is_complete or source.get("optional") else None

    async def _token(self, wanted: JSON) -> bytes:
        """One for the life of the pod: tests are shorter than tokens."""
        path, account = wanted["path"], self._pod["spec"]["serviceAccountName"]
        if path not in self._tokens:
            metadata = self._pod["metadata"]
            reference = {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
            spec = {"audiences": [], "expirationSeconds": wanted["expirationSeconds"], "boundObjectRef": reference}
            answer = await self._api.call(
                "POST",
                f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token",
                {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec},
            )
            assert answer.status == 201, answer
            self._tokens[path] = answer.json["status"]["token"].encode()
        return self._tokens[path]


def field_of(pod: JSON, path: str) -> str:
    """What a fieldRef means."""
    known = {
        "metadata.name": pod["metadata"]["name"],
        "metadata.namespace": pod["metadata"]["namespace"],
        "metadata.uid": pod["metadata"]["uid"],
        "spec.nodeName": pod["spec"].get("nodeName", ""),
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", ""),
        "status.podIP": "127.0.0.1",
    }
    return str(known[path])
