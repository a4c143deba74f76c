"""The parent, seen from outside: real processes, as PID 1 of a PID namespace and as an ordinary process."""

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shells.conftest import Start
from tests.shells.parents import PARENT, Parent, gone, state, status, until
from tests.shells.test_release import HOLDS

WAITS = "while True: signal.pause()\n"


def endings(parent: Parent, count: int = 1) -> list[dict[str, object]]:
    return [json.loads(line) for line in parent.wait_for("{", count)]


def test_the_dead_man_timer_kills_the_child_and_the_parent_says_so_and_starts_another(start: Start) -> None:
    parent = start("arm_dead_man(0.05)\n" + WAITS)
    first, second = (int(line.split()[1]) for line in parent.wait_for("started", 2))
    line = endings(parent)[0]
    assert (line["message"], line["reason"]) == ("child ended", "stopped by its dead-man timer")
    assert first != second
    assert parent.outer(first) == 0, "it is gone"


def test_the_timer_is_armed_from_any_thread_and_needs_no_interpreter_that_gets_to_run(start: Start) -> None:
    armed_elsewhere = "import re, threading\nthreading.Thread(target=arm_dead_man, args=[0.1]).start()\n"
    parent = start(armed_elsewhere + "re.match('(a+)+b', 'a' * 60)\n")
    assert endings(parent)[0]["reason"] == "stopped by its dead-man timer"


def test_a_timer_that_is_armed_again_in_time_or_disarmed_kills_nobody(start: Start) -> None:
    renewals = "for n in range(30): arm_dead_man(0.4); time.sleep(0.02)\n"
    parent = start(renewals + "child.disarm_dead_man(); time.sleep(0.5); sys.exit(3)\n")
    assert parent.ended() == 3


def test_a_child_frozen_past_its_trust_dies_on_waking_before_it_does_anything(start: Start) -> None:
    parent = start("arm_dead_man(3)\nsay('armed')\nwhile True: say('acts'); time.sleep(0.001)\n")
    parent.wait_for("armed")
    frozen = parent.child()
    os.kill(frozen, signal.SIGSTOP)
    until(lambda: state(frozen) == "T", "the child is frozen")
    alarm = 1 << (signal.SIGALRM - 1)
    until(lambda: int(status(frozen, "ShdPnd"), 16) & alarm, "the timer has run out")
    acts = len(parent.lines("acts"))
    os.kill(frozen, signal.SIGCONT)
    assert endings(parent)[0]["reason"] == "stopped by its dead-man timer"
    parent.child(2)
    said = [line.split()[0] for line in parent._lines]
    assert said.index("started", 1) - 1 - said.index("armed") - acts <= 1, "it acted after waking"


def test_the_timer_works_although_the_alarm_was_inherited_blocked_and_ignored(start: Start) -> None:
    deaf = "import signal; signal.signal(14, signal.SIG_IGN); signal.pthread_sigmask(signal.SIG_BLOCK, [14]); "
    parent = start("arm_dead_man(0.05)\n" + WAITS, parent=deaf + PARENT)
    assert endings(parent)[0]["reason"] == "stopped by its dead-man timer"


def test_each_signal_reaches_the_child_each_time(start: Start) -> None:
    names = ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"]
    takes = f"for name in {names}: take(getattr(signal, name), lambda number, _: say('heard', number))\n"
    parent = start(takes + "say('ready')\nwhile True: time.sleep(0.01)\n")
    parent.wait_for("ready")
    for name in names:
        for count in (1, 2):
            parent.send(getattr(signal, name))
            parent.wait_for(f"heard {getattr(signal, name):d}\n", count)


def test_after_a_stop_the_parent_waits_for_its_child_and_ends_with_its_code(start: Start) -> None:
    parent = start(
        "take(signal.SIGTERM, lambda *_: (time.sleep(0.2), say('drained'), sys.exit(7)))\nsay('ready')\n" + WAITS
    )
    parent.wait_for("ready")
    parent.send(signal.SIGTERM)
    assert parent.ended() == 7
    assert parent.lines("drained")


def test_a_term_that_is_lost_while_stopping_starts_no_other_child(start: Start) -> None:
    parent = start("take(signal.SIGTERM, lambda *_: sys.exit(ExitCode.TERM_LOST))\nsay('ready')\n" + WAITS)
    parent.wait_for("ready")
    parent.send(signal.SIGTERM)
    assert parent.ended() == 75
    assert len(parent.lines("started")) == 1


@pytest.mark.parametrize(
    ("last_words", "code"),
    [("sys.exit(0)", 0), ("sys.exit(2)", 2), ("sys.exit(3)", 3), ("os.kill(os.getpid(), signal.SIGKILL)", 137)],
)
def test_an_end_that_is_no_lost_term_is_the_parents_own_end(start: Start, last_words: str, code: int) -> None:
    parent = start(last_words)
    assert parent.ended() == code
    assert len(parent.lines("started")) == 1
    assert len(parent.lines("{")) == (code not in (0, 2))


def test_a_child_that_loses_its_term_again_and_again_is_started_ever_more_slowly(start: Start) -> None:
    parent = start("sys.exit(ExitCode.TERM_LOST)")
    births = [float(line.split()[2]) for line in parent.wait_for("started", 4)]
    pauses = [later - earlier for earlier, later in itertools.pairwise(births)]
    assert all(pause >= least for pause, least in zip(pauses, (0.1, 0.2, 0.4), strict=True)), pauses
    assert endings(parent)[0]["reason"] == "lost its term"


def test_a_stop_during_the_pause_between_two_children_ends_the_parent(start: Start) -> None:
    parent = start("sys.exit(ExitCode.TERM_LOST)")
    endings(parent, 5)
    parent.send(signal.SIGTERM)
    assert parent.ended() == 0


def test_orphans_are_reaped(start: Start) -> None:
    parent = start("subprocess.run(['sh', '-c', 'sh -c \"sleep 0.05\" & echo orphaned $!'])\n" + WAITS)
    orphan = parent.outer(int(parent.wait_for("orphaned")[0].split()[1]))
    until(lambda: state(orphan) == "", "the orphan has been reaped")
    assert not gone(parent.child())


LEAVES = """
subprocess.Popen(['sh', '-c', 'echo group $$; exec sleep 60'], process_group=0)
subprocess.Popen(['setsid', '-f', 'sh', '-c', 'echo session $$; trap "" TERM INT HUP; while :; do sleep 60; done'])
"""


def test_all_that_the_child_had_started_ends_before_the_next_child_starts(start: Start) -> None:
    parent = start(LEAVES + "take(signal.SIGUSR1, lambda *_: arm_dead_man(0))\n" + WAITS)
    left = [parent.outer(int(parent.wait_for(word)[0].split()[1])) for word in ("group", "session")]
    assert all(left)
    assert not any(map(gone, left))
    parent.send(signal.SIGUSR1)
    parent.child(2)
    assert all(map(gone, left))
    assert endings(parent)[0]["left_behind"] >= 3  # type: ignore[operator]


def test_what_an_entry_script_had_started_before_is_spared(start: Start) -> None:
    parent = start("arm_dead_man(0.05)\n" + WAITS, before="sleep 60 & echo stranger $!;")
    stranger = parent.outer(int(parent.wait_for("stranger")[0].split()[1]))
    parent.child(3)
    assert state(stranger) == "S"
    os.kill(stranger, signal.SIGKILL)


def test_a_killed_parent_takes_its_child_along(start: Start) -> None:
    parent = start("say('ready')\n" + WAITS)
    parent.wait_for("ready")
    child = parent.child()
    parent.send(signal.SIGKILL)
    until(lambda: gone(child), "the child is dead too")


def test_a_child_whose_parent_died_before_it_could_ask_ends_itself() -> None:
    program = "from soloist.shells.child import die_with_parent; die_with_parent(); print('lives')"
    ended = subprocess.run([sys.executable, "-c", program], env={"SOLOIST_PARENT_PID": "1"}, capture_output=True)
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, b"")


def test_the_parent_stays_under_20_megabytes_through_deaths_and_releases(start: Start) -> None:
    parent = start(
        HOLDS.format(server="http://127.0.0.1:9") + "sys.exit(ExitCode.TERM_LOST)\n",
        parent="from soloist.shells.main import main; " + PARENT,
    )
    parent.wait_for("started", 4)
    assert int(status(parent.pid, "VmHWM").split()[0]) <= 20_000


def test_programs_that_the_child_starts_do_not_get_its_page(start: Start) -> None:
    parent = start("Beat.inherited()\nsubprocess.run(['sh', '-c', 'echo files $(ls -l /proc/self/fd)'])\n" + WAITS)
    assert "soloist-beat" not in parent.wait_for("files")[0]
    inherited = [os.readlink(entry) for entry in Path(f"/proc/{parent.child()}/fd").iterdir()]
    assert any("soloist-beat" in name for name in inherited)


def test_the_parents_road_imports_nothing_heavy() -> None:
    program = "import sys, soloist.shells.main, soloist.shells.supervisor; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"logging", "ssl", "http.client", "asyncio", "hashlib", "click", "aiohttp", "kubernetes", "kopf", "yaml"}
    assert heavy.isdisjoint(loaded)
