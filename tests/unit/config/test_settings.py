from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from schedulerd.address import split_address
from schedulerd.config import Settings, load_settings
from schedulerd.config.setting_types import CLASS_NAME_LENGTH_MAX, GangStyle
from schedulerd.core.language.specs import Timeouts
from tests.loops import each_row
from tests.unit.config.settings_problems import problems


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.yaml"


def test_defaults() -> None:
    settings = load_settings({}, {})
    assert settings == Settings()
    assert settings.config is None
    assert (settings.grpc_bind, settings.http_bind) == ("0.0.0.0:3333", "0.0.0.0:9080")
    assert settings.timeouts() == Timeouts(), "the defaults are the core's own"


def test_texts_of_every_type(file: Path) -> None:
    file.write_text("grpc_reflection: false\nretention_days: 0.5\nlog_level: WARNING\ninbox_max:\n")
    settings = load_settings({}, {"SCHEDULERD_RECONNECT_TIMEOUT_S": "0.25", "SCHEDULERD_CONFIG": str(file)}, file)
    assert settings.grpc_reflection is False
    assert settings.log_level == "warning"
    assert settings.config == file
    timeouts = settings.timeouts()
    assert (timeouts.retention_ns, timeouts.reconnect_ns) == (43_200 * 10**9, 250_000_000)


@pytest.mark.parametrize(("text", "style"), [("soft", GangStyle.SOFT), ("HARD", GangStyle.HARD)])
def test_the_gang_style_of_2021_is_read_in_any_case_and_hard_by_default(text: str, style: GangStyle) -> None:
    assert load_settings({"gang_style_2021": text}, {}).gang_style_2021 is style
    assert Settings().gang_style_2021 is GangStyle.HARD


TIMEOUTS = {
    "completing_timeout_s": "completing_ns",
    "starting_timeout_s": "starting_ns",
    "placeholder_timeout_s": "placeholder_ns",
    "gang_deadlock_timeout_s": "gang_deadlock_timeout_ns",
    "retention_days": "retention_ns",
    "reservation_delay_s": "reservation_delay_ns",
    "reservation_s": "reservation_ns",
    "preemption_attempt_s": "preemption_attempt_ns",
    "reconnect_timeout_s": "reconnect_ns",
    "queue_cleanup_timeout_s": "cleanup_ns",
    "early_message_timeout_s": "early_message_ns",
    "predicates_timeout_s": "predicates_ns",
    "predicate_retry_delay_s": "predicate_retry_delay_ns",
}


@each_row("setting", TIMEOUTS)
def test_a_timeout_comes_from_its_setting(setting: str) -> None:
    unit_ns = (86_400 if setting.endswith("_days") else 1) * 10**9
    settings = load_settings({setting: 0.5}, {})
    assert settings.timeouts() == replace(Timeouts(), **{TIMEOUTS[setting]: unit_ns // 2})


def test_every_timeout_can_be_set() -> None:
    assert {field.name for field in fields(Timeouts)} == set(TIMEOUTS.values())


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError):
        Settings().inbox_max = 1


@each_row(
    ("name", "value", "message"),
    [
        ("log_format", "xml", "must be 'json' or 'console'"),
        ("grpc_reflection", "perhaps", "must be a valid boolean"),
        ("cycle_allocations_max", "0", "must be greater than or equal to 1"),
        ("cycle_allocations_max", "1.5", "must be a valid integer"),
        ("outbox_max_bytes", "-1", "must be greater than or equal to 65536"),
        ("inbox_max", "x", "must be a valid integer"),
        ("max_message_bytes", "1", "must be greater than or equal to 4194304"),
        ("max_message_bytes", str(2**31), "must be less than or equal to 2147483647"),
        ("reconnect_timeout_s", "0", "must be greater than 0"),
        ("completing_timeout_s", "inf", "must be a finite number"),
        ("starting_timeout_s", "1e12", "must be less than or equal to 1000000000"),
        ("retention_days", "-1", "must be greater than 0"),
        ("early_message_timeout_s", "-1", "must be greater than or equal to 0"),
        ("drain_timeout_s", "0", "must be greater than 0"),
        ("config", "/does/not/exist.yaml", "must be an existing path to a file"),
        ("tls_cert_file", "/does/not/exist.pem", "must be an existing path to a file"),
        ("policy_groups_dir", "/does/not/exist", "must be an existing path to a directory"),
        ("colour", "red", "unknown setting; known are calls_max, completing_timeout_s, config"),
    ],
)
def test_values_that_are_not_good(name: str, value: str, message: str) -> None:
    (problem,) = problems({name: value})
    assert problem.startswith(f"--{name.replace('_', '-')} = '{value}': {message}")


def test_tls_needs_both_files(file: Path) -> None:
    file.write_text("# stands for a PEM file\n")
    both = {"tls_cert_file": file, "tls_key_file": file}
    for name in both:
        assert problems({name: file}) == ["tls_cert_file and tls_key_file must be set together"]
    assert problems({"tls_client_ca_file": file}) == ["tls_client_ca_file needs tls_cert_file and tls_key_file too"]
    assert load_settings({**both, "tls_client_ca_file": file}, {}).tls_client_ca_file == file


def test_identities_from_every_place(file: Path) -> None:
    tls = dict.fromkeys(("tls_cert_file", "tls_key_file", "tls_client_ca_file"), file)
    file.write_text("rm_identities:\n  shim: [rm-a, rm-b*]\n  ops: '*'\n")
    wanted = {"shim": ("rm-a", "rm-b*"), "ops": ("*",)}
    assert load_settings(tls, {}, file).rm_identities == wanted
    assert load_settings({**tls, "rm_identities": "shim=rm-a, ops=*, shim = rm-b*"}, {}).rm_identities == wanted
    assert load_settings(tls, {"SCHEDULERD_RM_IDENTITIES": "*=rm"}).rm_identities == {"*": ("rm",)}
    assert Settings().rm_identities == {}


def test_identities_need_mutual_tls(file: Path) -> None:
    file.write_text("# stands for a PEM file\n")
    both = {"tls_cert_file": file, "tls_key_file": file}
    wanted = ["rm_identities needs tls_client_ca_file: without client certificates no client has a name"]
    assert problems({"rm_identities": "shim=rm"}) == wanted
    assert problems({**both, "rm_identities": "shim=rm"}) == wanted


@each_row(
    ("value", "message"),
    [
        ("shim", "must be NAME=RMID pairs with commas between them, like shim=rm-a,shim=rm-b*,ops=*"),
        ("shim=rm,", "must be NAME=RMID pairs"),
        ("=rm", "the name is empty"),
        ("uri:=rm", "the name is empty"),
        ("*.prod=rm", "the name '*.prod' has a * or a character that cannot be printed; it must be the whole name"),
        ("cn:*=rm", "the name 'cn:*' has a *"),
        ("ip:10.0.0=rm", "'10.0.0' does not appear to be an IPv4 or IPv6 address"),
        ("shim=", "an rmID is empty"),
        ("shim=*-a", "the rmID '*-a' has a * that is not at its end"),
    ],
)
def test_identities_that_are_not_good(value: str, message: str) -> None:
    (problem,) = problems({"rm_identities": value})
    assert problem.startswith(f"--rm-identities = '{value}': {message}")


def test_kinds_of_names_that_count(file: Path) -> None:
    file.write_text("tls_identity_names: [uri]\n")
    assert Settings().tls_identity_names == ("cn", "dns", "uri")
    assert load_settings({}, {}, file).tls_identity_names == ("uri",)
    assert load_settings({"tls_identity_names": "email, ip"}, {}).tls_identity_names == ("email", "ip")
    assert problems({"tls_identity_names": "cn,mail"}) == [
        "--tls-identity-names = 'cn,mail': must be 'cn', 'dns', 'uri', 'email' or 'ip'"
    ]
    file.write_text("tls_identity_names: []\n")
    assert problems(file=file) == ["line 1: tls_identity_names: must name at least one of cn, dns, uri, email, ip"]


@pytest.mark.parametrize(
    ("entry", "kinds", "missing"),
    [
        ("email:a@b", "cn,dns,uri", "email"),
        ("spiffe://a/b", "cn,dns", "uri"),
        ("shim", "uri", "cn or dns"),
        ("shim", "dns", ""),
        ("ip:::1", "ip", ""),
        ("*", "ip", ""),
    ],
)
def test_a_name_of_a_kind_that_does_not_count_is_a_mistake(file: Path, entry: str, kinds: str, missing: str) -> None:
    tls = dict.fromkeys(("tls_cert_file", "tls_key_file", "tls_client_ca_file"), file)
    file.write_text("# stands for a PEM file\n")
    given = {**tls, "rm_identities": f"{entry}=rm", "tls_identity_names": kinds}
    if not missing:
        assert load_settings(given, {}).rm_identities == {entry: ("rm",)}
    else:
        (problem,) = problems(given)
        assert problem.startswith(
            f"rm_identities has the name {entry!r} of the kind {missing}, which tls_identity_names"
        )


def test_identities_of_a_file_that_are_not_good(file: Path) -> None:
    file.write_text("rm_identities:\n  shim: []\n  ops: [a*b, rm]\n")
    no_rm, stray_star = problems(file=file)
    assert no_rm == "line 2: rm_identities.shim: must name at least one rmID"
    assert stray_star.startswith("line 3: rm_identities.ops[0] = 'a*b': the rmID 'a*b' has a * that is not at its end;")


def test_priority_classes_from_every_place(file: Path) -> None:
    file.write_text("priority_classes:\n  high: 1000\n  low: -10\n")
    wanted = {"high": 1000, "low": -10}
    assert load_settings({}, {}, file).priority_classes == wanted
    assert load_settings({"priority_classes": "high=1000, low = -10"}, {}).priority_classes == wanted
    assert load_settings({}, {"SCHEDULERD_PRIORITY_CLASSES": "a=1"}, file).priority_classes == {"a": 1}
    assert Settings().priority_classes == {}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("high", "must be NAME=NUMBER pairs with commas between them, like high=1000,low=-10"),
        ("high=1,", "must be NAME=NUMBER pairs"),
        ("high=x", "must be a valid integer"),
        ("high=2147483648", "must be less than or equal to 2147483647"),
        ("=1", "a priority class needs a name of 1 to 256 characters"),
        ("a=1,a=2", "gives a name twice"),
    ],
)
def test_priority_classes_that_are_not_good(value: str, message: str) -> None:
    (problem,) = problems({"priority_classes": value})
    assert problem.startswith(f"--priority-classes = '{value}': {message}")


def test_the_longest_name_of_a_priority_class() -> None:
    longest = "a" * CLASS_NAME_LENGTH_MAX
    assert load_settings({"priority_classes": f"{longest}=1"}, {}).priority_classes == {longest: 1}
    (problem,) = problems({"priority_classes": f"{longest}a=1"})
    assert problem.endswith(f"a priority class needs a name of 1 to {CLASS_NAME_LENGTH_MAX} characters")


def test_priority_classes_of_a_file_that_are_not_good(file: Path) -> None:
    file.write_text("priority_classes:\n  high: 5\n  low: much\n  '': 3\n")
    number, name = problems(file=file)
    assert number.startswith("line 3: priority_classes.low = 'much': must be a valid integer")
    assert name.endswith("a priority class needs a name of 1 to 256 characters")


@each_row(
    ("address", "parts"),
    [
        ("0.0.0.0:3333", ("0.0.0.0", 3333)),
        ("localhost:0", ("localhost", 0)),
        ("[::]:65535", ("::", 65535)),
        ("[fe80::1%eth0]:1", None),
        ("[::1]:9080", ("::1", 9080)),
        ("schedulerd.batch.svc:1", ("schedulerd.batch.svc", 1)),
        ("3333", None),
        (":3333", None),
        ("host:", None),
        ("host:65536", None),
        ("host:-1", None),
        ("::1:3333", None),
        ("a host:1", None),
    ],
)
def test_addresses(address: str, parts: tuple[str, int] | None) -> None:
    if parts is None:
        with pytest.raises(ValueError, match="must be HOST:PORT"):
            split_address(address)
    else:
        assert split_address(address) == parts


def test_every_setting_has_a_help_text() -> None:
    for name, setting in Settings.model_fields.items():
        assert setting.description, name
        assert setting.description.endswith("."), name
