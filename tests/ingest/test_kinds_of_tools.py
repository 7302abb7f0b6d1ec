"""What tools are taken for, and why."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from capataz.events.facts import JSON, Kind
from capataz.ingest.commands import command_kind, command_target, sql_kind
from capataz.ingest.kinds import guess, target_value

NAMES: dict[str, Kind] = {
    "get_order_details": "read",
    "calendar.search_events": "search",
    "company_directory.find_email_address": "search",
    "email.send_email": "message",
    "email.reply_email": "message",
    "email.delete_email": "write",
    "email.get_email_information_by_id": "read",
    "create_task": "write",
    "update_reservation_flights": "write",
    "cancel_reservation": "write",
    "exchangeDeliveredOrderItems": "write",
    "transfer_to_human_agents": "message",
    "list_all_airports": "read",
    "analytics.total_visits_count": "read",
    "get_job_status": "poll",
    "BashOutput": "poll",
    "TodoWrite": "write",
    "WebFetch": "read",
    "WebSearch": "search",
    "Task": "exec",
    "HTTPGetPage": "read",
    "consultar_estado": "poll",
    "buscarClientes": "search",
    "reembolsar_pedido": "write",
    "enviar_correo": "message",
    "cambiar_estado": "write",
    "llistar-comandes": "read",
    "annuler_commande": "write",
    "bestellung_stornieren": "write",
    "python": "exec",
    "frobnicate": "exec",
    "": "exec",
}


@pytest.mark.parametrize(("name", "kind"), NAMES.items())
def test_by_name(name: str, kind: Kind) -> None:
    assert guess(name, {}).kind == kind


COMMANDS: dict[str, Kind] = {
    "ls -la src": "read",
    "cat a b | head -5": "read",
    "cd /x && git status": "read",
    "git commit -m x": "exec",
    "grep -rn TODO .": "search",
    "find . -name '*.py' -exec grep x {} +": "search",
    "find . -delete": "exec",
    "cat > a.py <<'X'": "exec",
    "make 2>&1 | tail": "exec",
    "ls 2>/dev/null": "read",
    "sed -n 1,5p a": "read",
    "sed -i s/a/b/ c": "exec",
    "sleep 5": "poll",
    "sleep 5 && cat log": "poll",
    "X=1 timeout 5 ls": "read",
    "sudo rm -rf x": "exec",
    "python -c 'print(1)'": "exec",
    "bash -lc 'ls | wc -l'": "read",
    "```bash\nrm a\n```": "exec",
    "execute[grep a b]": "search",
    "echo $(cat a)": "read",
    "echo $(rm a)": "exec",
    "kubectl get pods": "read",
    "kubectl delete pod x": "exec",
    "sleep 60; gh run view 81 --json status": "poll",
    "gh pr merge 81": "exec",
    "aws ecs describe-services --services list": "read",
    "aws s3 rm s3://list/get": "exec",
    "gcloud compute instances list": "read",
    "sleep 5 && curl -s localhost:8080/health": "poll",
    "curl -s -o /dev/null -w '%{http_code}' localhost": "read",
    "curl -X POST localhost/x": "exec",
    "curl -XDELETE localhost/x": "exec",
    "curl -d a=1 localhost/x": "exec",
    "curl -O https://x.example/a.tgz": "exec",
    "": "exec",
    "'unclosed": "exec",
}


@pytest.mark.parametrize(("command", "kind"), COMMANDS.items())
def test_by_command(command: str, kind: Kind) -> None:
    assert command_kind(command) == kind
    assert guess("Bash", {"command": command}).kind == kind


STATEMENTS: dict[str, Kind] = {
    "SELECT * FROM t": "read",
    "show tables;": "read",
    "DESC t": "read",
    "-- why\nselect 1": "read",
    "with t as (select 1) select * from t": "read",
    "with t as (select 1) delete from u": "write",
    "INSERT INTO t VALUES (1)": "write",
    "execute[SELECT 1]": "read",
    "Can you tell me": "exec",
    "": "exec",
}


@pytest.mark.parametrize(("statement", "kind"), STATEMENTS.items())
def test_by_statement(statement: str, kind: Kind) -> None:
    assert sql_kind(statement) == kind
    assert guess("run_sql", {"query": statement}).kind == kind


def test_hints_overrule_names_but_keep_what_they_cannot_say() -> None:
    assert guess("delete_all", {}, {"readOnlyHint": True}).kind == "read"
    assert guess("search_all", {}, {"readOnlyHint": True}).kind == "search"
    assert guess("get_all", {}, {"destructiveHint": True}).kind == "write"
    assert guess("send_all", {}, {"readOnlyHint": False}).kind == "message"


def test_arguments_tell_what_a_name_does_not() -> None:
    assert guess("tool_7", {"command": "ls"}).kind == "read"
    assert guess("tool_7", {"path": "a", "content": "b"}).kind == "write"
    assert guess("tool_7", {"to": "a", "body": "b"}).kind == "message"
    assert guess("tool_7", {"query": "q"}).kind == "search"
    assert guess("tool_7", {"url": "u"}).kind == "read"
    assert guess("str_replace_editor", {"command": "view", "path": "a"}).kind == "read"


def test_targets() -> None:
    assert guess("cancel_order", {"reason": "r", "order_id": "7"}).target == "order_id"
    assert guess("Edit", {"old": "x", "file_path": "a.py"}).target == "file_path"
    assert guess("wait", {}).target is None
    assert target_value("order_id", "cancel_order", {"order_id": 7}, "write") == "7"
    assert target_value(None, "Bash", {"command": "cat -n 'my file'"}, "read") == "my_file"
    assert command_target("git diff") is None


@given(st.text(), st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.lists(st.text())))
def test_a_guess_is_always_possible_and_says_why(name: str, arguments: dict[str, JSON]) -> None:
    found = guess(name, arguments)
    assert found.why
    assert found.target is None or found.target in arguments
    assert found == guess(name, dict(reversed(arguments.items()))) or found.target is not None
