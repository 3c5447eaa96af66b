"""Where the values of settings come from, and what is told of those that are not good."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulerd.config import Settings, SettingsInvalid, load_settings
from tests.unit.config.settings_problems import problems

ADDRESS_RULE = "must be HOST:PORT, like 0.0.0.0:3333 or [::1]:3333, with a port up to 65535 (0 for any free)"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.yaml"


def test_a_flag_wins_over_the_environment_that_over_the_file_that_over_the_default(file: Path) -> None:
    file.write_text("inbox_max: 10\ncycle_allocations_max: 10\nretention_days: 10\n")
    settings = load_settings(
        {"inbox_max": 30, "log_level": None, "log_format": ""},
        {
            "SCHEDULERD_INBOX_MAX": "20",
            "SCHEDULERD_CYCLE_ALLOCATIONS_MAX": "20",
            "SCHEDULERD_LOG_LEVEL": "",
            "INBOX_MAX": "7",
        },
        file,
    )
    assert (settings.inbox_max, settings.cycle_allocations_max, settings.retention_days) == (30, 20, 10)
    assert settings.drain_timeout_s == Settings().drain_timeout_s
    assert (settings.log_level, settings.log_format) == ("info", "json"), "empty is not given"


def test_every_problem_is_told_with_the_place_to_correct_it(file: Path) -> None:
    file.write_text("log_level: loud\nretention: 5\nretention_days: .nan\n")
    assert sorted(problems({"http_bind": "9080"}, {"SCHEDULERD_INBOX_MAX": "0"}, file)) == [
        f"--http-bind = '9080': {ADDRESS_RULE}",
        "SCHEDULERD_INBOX_MAX = '0': must be greater than or equal to 1",
        "line 1: log_level = 'loud': must be 'debug', 'info', 'warning' or 'error'",
        "line 2: retention = '5': unknown setting; did you mean \"retention_days\"?",
        "line 3: retention_days = '.nan': must be a valid number, unable to parse string as a number",
    ]


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


@given(st.dictionaries(st.sampled_from(sorted(Settings.model_fields)), st.text(max_size=8), max_size=4))
def test_any_values_are_taken_or_explained(values: dict[str, str]) -> None:
    environ = {f"SCHEDULERD_{name.upper()}": value for name, value in values.items()}
    try:
        load_settings({}, environ)
    except SettingsInvalid as error:
        for problem in error.problems:
            assert problem.message
            assert problem.path in environ or problem.path == ""


def test_settings_of_another_command_are_no_misspelt_ones() -> None:
    assert load_settings({}, {"SCHEDULERD_KUBERNETES_GRPC_BIND": "x"}) == Settings()
    with pytest.raises(SettingsInvalid):
        load_settings({}, {"SCHEDULERD_GRPC_BINDS": "x"})
