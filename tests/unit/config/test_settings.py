from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schedulerd.address import split_address
from schedulerd.config import Settings, SettingsInvalid, load_settings
from schedulerd.core.specs import Timeouts

ADDRESS_RULE = "must be HOST:PORT, like 0.0.0.0:3333 or [::1]:3333, with a port up to 65535 (0 for any free)"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.yaml"


def problems(
    flags: dict[str, Any] | None = None, environ: dict[str, str] | None = None, file: Path | None = None
) -> list[str]:
    with pytest.raises(SettingsInvalid) as raised:
        load_settings(flags or {}, environ or {}, file)
    assert str(raised.value).splitlines()[1:] == [f"  {problem}" for problem in raised.value.problems]
    return [str(problem) for problem in raised.value.problems]


def test_defaults() -> None:
    settings = load_settings({}, {})
    assert settings == Settings()
    assert settings.config is None
    assert (settings.grpc_bind, settings.http_bind) == ("0.0.0.0:3333", "0.0.0.0:9080")
    assert settings.timeouts() == Timeouts(), "the defaults are the core's own"


def test_a_flag_wins_over_the_environment_that_over_the_file_that_over_the_default(file: Path) -> None:
    file.write_text("inbox_max: 10\ncycle_placements_max: 10\nretention_days: 10\n")
    settings = load_settings(
        {"inbox_max": 30, "log_level": None, "log_format": ""},
        {
            "SCHEDULERD_INBOX_MAX": "20",
            "SCHEDULERD_CYCLE_PLACEMENTS_MAX": "20",
            "SCHEDULERD_LOG_LEVEL": "",
            "INBOX_MAX": "7",
        },
        file,
    )
    assert (settings.inbox_max, settings.cycle_placements_max, settings.retention_days) == (30, 20, 10)
    assert settings.drain_timeout_s == Settings().drain_timeout_s
    assert (settings.log_level, settings.log_format) == ("info", "json"), "empty is not given"


def test_texts_of_every_type(file: Path) -> None:
    file.write_text("grpc_reflection: false\nretention_days: 0.5\nlog_level: WARNING\ninbox_max:\n")
    settings = load_settings({}, {"SCHEDULERD_RECONNECT_TIMEOUT_S": "0.25", "SCHEDULERD_CONFIG": str(file)}, file)
    assert settings.grpc_reflection is False
    assert settings.log_level == "warning"
    assert settings.config == file
    timeouts = settings.timeouts()
    assert (timeouts.retention_ns, timeouts.reconnect_ns) == (43_200 * 10**9, 250_000_000)


TIMEOUTS = {
    "completing_timeout_s": "completing_ns",
    "starting_timeout_s": "starting_ns",
    "placeholder_timeout_s": "placeholder_ns",
    "gang_patience_s": "gang_patience_ns",
    "retention_days": "retention_ns",
    "reservation_delay_s": "reservation_delay_ns",
    "reservation_s": "reservation_ns",
    "preemption_attempt_s": "preemption_attempt_ns",
    "reconnect_timeout_s": "reconnect_ns",
    "queue_cleanup_timeout_s": "cleanup_ns",
    "early_message_timeout_s": "early_message_ns",
    "predicates_timeout_s": "predicates_ns",
    "refusal_rest_s": "refusal_ns",
}


@pytest.mark.parametrize("setting", TIMEOUTS)
def test_a_timeout_comes_from_its_setting(setting: str) -> None:
    unit_ns = (86_400 if setting.endswith("_days") else 1) * 10**9
    settings = load_settings({setting: 0.5}, {})
    assert settings.timeouts() == replace(Timeouts(), **{TIMEOUTS[setting]: unit_ns // 2})


def test_every_timeout_can_be_set() -> None:
    assert {field.name for field in fields(Timeouts)} == set(TIMEOUTS.values())


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError):
        Settings().inbox_max = 1


def test_every_problem_is_told_with_the_place_to_correct_it(file: Path) -> None:
    file.write_text("log_level: loud\nretention: 5\nretention_days: .nan\n")
    assert sorted(problems({"http_bind": "9080"}, {"SCHEDULERD_INBOX_MAX": "0"}, file)) == [
        f"--http-bind = '9080': {ADDRESS_RULE}",
        "SCHEDULERD_INBOX_MAX = '0': must be greater than or equal to 1",
        "line 1: log_level = 'loud': must be 'debug', 'info', 'warning' or 'error'",
        "line 2: retention = '5': unknown setting; did you mean \"retention_days\"?",
        "line 3: retention_days = '.nan': must be a valid number, unable to parse string as a number",
    ]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("log_format", "xml", "must be 'json' or 'console'"),
        ("grpc_reflection", "perhaps", "must be a valid boolean"),
        ("cycle_placements_max", "0", "must be greater than or equal to 1"),
        ("cycle_placements_max", "1.5", "must be a valid integer"),
        ("outbox_max_bytes", "-1", "must be greater than or equal to 65536"),
        ("inbox_max", "x", "must be a valid integer"),
        ("max_message_bytes", "1", "must be greater than or equal to 65536"),
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
    wanted = ["rm_identities needs tls_client_ca_file: without client certificates nobody has a name"]
    assert problems({"rm_identities": "shim=rm"}) == wanted
    assert problems({**both, "rm_identities": "shim=rm"}) == wanted


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("shim", "must be NAME=RMID pairs with commas between them, like shim=rm-a,shim=rm-b*,ops=*"),
        ("shim=rm,", "must be NAME=RMID pairs"),
        ("=rm", "an empty name is nobody's"),
        ("shim=", "an rmID is empty"),
        ("shim=*-a", "the rmID '*-a' has a * that is not at its end"),
    ],
)
def test_identities_that_are_not_good(value: str, message: str) -> None:
    (problem,) = problems({"rm_identities": value})
    assert problem.startswith(f"--rm-identities = '{value}': {message}")


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


def test_priority_classes_of_a_file_that_are_not_good(file: Path) -> None:
    file.write_text("priority_classes:\n  high: 5\n  low: much\n  '': 3\n")
    number, name = problems(file=file)
    assert number.startswith("line 3: priority_classes.low = 'much': must be a valid integer")
    assert name.endswith("a priority class needs a name of 1 to 256 characters")


def test_a_misspelt_variable_is_a_problem() -> None:
    assert problems(environ={"SCHEDULERD_GRPC_BND": "x"}) == [
        "SCHEDULERD_GRPC_BND = 'x': unknown setting; did you mean \"grpc_bind\"?"
    ]


def test_variables_that_kubernetes_makes_for_a_service_are_not_ours() -> None:
    made = [
        "SCHEDULERD_SERVICE_HOST",
        "SCHEDULERD_SERVICE_PORT",
        "SCHEDULERD_SERVICE_PORT_GRPC_BIND",
        "SCHEDULERD_PORT",
        "SCHEDULERD_PORT_3333_TCP",
        "SCHEDULERD_PORT_3333_TCP_ADDR",
        "SCHEDULERD_HTTP_SERVICE_HOST",
        "SCHEDULERD_HTTP_PORT_9080_TCP_PROTO",
        "SCHEDULERD_CONFIG_PORT",
        "SCHEDULERD_SETTINGS",
        "SCHEDULERD_UNRELATED",
    ]
    assert load_settings({}, dict.fromkeys(made, "tcp://10.0.0.1:3333")) == Settings()


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("- a\n", "line 1: a settings file is a mapping of names to values"),
        ("just text\n", "line 1: text = 'just text': a settings file is a mapping of names to values"),
        ("inbox_max: 1\ninbox_max: 2\n", "line 1: inbox_max = '1': given twice, in lines 1 and 2"),
        ("inbox_max: [\n", "line 2: not valid YAML"),
        ("inbox_max: [1]\n", "line 1: inbox_max: must be a valid integer"),
    ],
)
def test_settings_files_that_are_not_good(file: Path, text: str, start: str) -> None:
    file.write_text(text)
    (problem,) = problems(file=file)
    assert problem.startswith(start)


def test_a_settings_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (problem,) = problems(file=Path("none.yaml"))
    assert problem.startswith("--settings = 'none.yaml': cannot be read: ")
    Path("latin.yaml").write_bytes(b"config: \xff\n")
    (problem,) = problems(file=Path("latin.yaml"))
    assert "cannot be read" in problem


def test_an_empty_settings_file_sets_nothing(file: Path) -> None:
    file.write_text("# nothing yet\n")
    assert load_settings({}, {}, file) == Settings()


@pytest.mark.parametrize(
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


@given(st.dictionaries(st.sampled_from(sorted(Settings.model_fields)), st.text(max_size=8), max_size=4))
def test_any_values_are_taken_or_explained(values: dict[str, str]) -> None:
    environ = {f"SCHEDULERD_{name.upper()}": value for name, value in values.items()}
    try:
        load_settings({}, environ)
    except SettingsInvalid as error:
        for problem in error.problems:
            assert problem.message
            assert problem.path in environ or problem.path == ""


def test_every_setting_has_a_help_text() -> None:
    for name, setting in Settings.model_fields.items():
        assert setting.description, name
        assert setting.description.endswith("."), name
