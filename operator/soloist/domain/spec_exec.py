"""The ``exec`` action of a spec: a command and its arguments, as the kernel takes them."""

from soloist.domain.actions import ExecAction
from soloist.domain.spec_fields import Fields, required, wrong

_MOST_WORDS = 256
_LONGEST_WORD = 65536


def parse_exec(action: Fields) -> ExecAction:
    """Read ``spec.exec``; raises ``Refusal``. No word is changed: a shell, or a variable, is for the command to ask for."""
    path = action.at("command")
    words = action.raw.get("command")
    if words is None or words == [] or words == "":
        raise required(path, 'a list of the program and its arguments, such as ["/usr/bin/backup", "--all"]')
    if not isinstance(words, list | tuple) or len(words) > _MOST_WORDS:
        raise wrong(path, f"{path} must be a list of at most {_MOST_WORDS} texts, the program first.")
    for number, word in enumerate(words):
        if not isinstance(word, str) or len(word) > _LONGEST_WORD or "\0" in word:
            raise wrong(path, f"{path}[{number}] must be text without a zero byte: put it in quotes.")
    if not words[0]:
        raise required(f"{path}[0]", "the program")
    return ExecAction(command=tuple(words))
