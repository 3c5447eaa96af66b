"""What is read of a kubeconfig, and how several files become one."""

from __future__ import annotations

from pathlib import Path

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from schedulerd.kubernetes.auth.errors import AccessUnusable
from schedulerd.kubernetes.auth.files import read_now


class Kebab(msgspec.Struct, rename="kebab"):
    pass


class ClusterFields(Kebab):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class ExecVariable(msgspec.Struct):
    name: str
    value: str = ""


class ExecFields(msgspec.Struct, rename="camel"):
    command: str
    api_version: str
    args: list[str] | None = None
    env: list[ExecVariable] | None = None
    install_hint: str = ""
    interactive_mode: str = ""
    provide_cluster_info: bool = False


class UserFields(Kebab):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    auth_provider: dict[str, object] | None = None
    exec: ExecFields | None = None
    act_as: str = msgspec.field(default="", name="as")


class ContextFields(Kebab):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class NamedCluster(msgspec.Struct):
    name: str
    cluster: ClusterFields


class NamedUser(msgspec.Struct):
    name: str
    user: UserFields


class NamedContext(msgspec.Struct):
    name: str
    context: ContextFields


class KubeconfigFile(Kebab):
    current_context: str = ""
    clusters: list[NamedCluster] | None = None
    users: list[NamedUser] | None = None
    contexts: list[NamedContext] | None = None


class Found(msgspec.Struct):
    """An entry and where it stands: paths in it are relative to the folder of its file."""

    path: Path
    where: str


class FoundCluster(Found):
    fields: ClusterFields


class FoundUser(Found):
    fields: UserFields


class FoundContext(Found):
    fields: ContextFields


class Merged(msgspec.Struct):
    """All files as one: of equal names the first counts."""

    current_context: str = ""
    clusters: dict[str, FoundCluster] = {}
    users: dict[str, FoundUser] = {}
    contexts: dict[str, FoundContext] = {}


def read_kubeconfigs(paths: list[Path], *, must_exist: bool) -> Merged:
    """Missing files are passed over, unless `must_exist`. Raises `AccessUnusable`."""
    merged = Merged()
    for path in paths:
        if not must_exist and not path.exists():
            continue
        file = _read(path)
        merged.current_context = merged.current_context or file.current_context
        for i, cluster in enumerate(file.clusters or ()):
            where = f"{path}: clusters[{i}] ({cluster.name!r})"
            merged.clusters.setdefault(cluster.name, FoundCluster(path, where, cluster.cluster))
        for i, user in enumerate(file.users or ()):
            merged.users.setdefault(user.name, FoundUser(path, f"{path}: users[{i}] ({user.name!r})", user.user))
        for i, context in enumerate(file.contexts or ()):
            where = f"{path}: contexts[{i}] ({context.name!r})"
            merged.contexts.setdefault(context.name, FoundContext(path, where, context.context))
    return merged


def _read(path: Path) -> KubeconfigFile:
    try:
        text = read_now(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise AccessUnusable(f"{path}: byte {error.start} is not UTF-8; a kubeconfig is YAML or JSON text") from None
    try:
        data = YAML(typ="safe", pure=True).load(text)
        return KubeconfigFile() if data is None else msgspec.convert(data, KubeconfigFile)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f" line {mark.line + 1}:"
        raise AccessUnusable(f"{path}:{line} not valid YAML: {str(error.problem)[:200]}") from None
    except (YAMLError, RecursionError) as error:
        raise AccessUnusable(f"{path}: not valid YAML: {type(error).__name__}") from None
    except msgspec.ValidationError as error:
        raise AccessUnusable(f"{path}: not a kubeconfig: {error}") from None
