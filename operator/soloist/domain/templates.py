"""Templates in a manifest: text with variables, filled in for one run or one row.

``{run}`` in a template is a variable, ``{{`` stands for one ``{``. Only a word in braces is a variable, so a JSON body needs
no escapes, and a word that is not on the list is refused rather than sent. What the values may hold, and so what may become
of the text, is for those to say who make them.
"""

import re
from collections.abc import Collection, Mapping

VARIABLES = ("namespace", "job", "run", "key", "scheduledTime", "attempt", "fence")
"""Those of a run."""

_VARIABLE = re.compile(r"\{\{|\{([A-Za-z_][A-Za-z0-9_]*)\}")


def render(template: str, values: Mapping[str, str]) -> str:
    """``template`` with its variables filled in; one that is not in ``values`` stays as it is (see ``template_problem``)."""
    if "{" not in template:
        return template

    def fill(match: re.Match[str]) -> str:
        name = match.group(1)
        return "{" if name is None else values.get(name, match.group())

    return _VARIABLE.sub(fill, template)


def names_in(template: str) -> list[str]:
    """The variables that a template names, in the order in which they appear."""
    return [match.group(1) for match in _VARIABLE.finditer(template) if match.group(1) is not None]


def template_problem(template: str, variables: Collection[str] = VARIABLES) -> str | None:
    """What is wrong with a template over ``variables``, as the end of a sentence that begins with its field."""
    for name in names_in(template):
        if name not in variables:
            known = ", ".join(f"{{{variable}}}" for variable in variables)
            return f'holds {{{name}}}, which is no variable; there are {known}, and "{{{{" stands for one "{{"'
    return None
