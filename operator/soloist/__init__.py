"""Soloist: every scheduled job once, every queued row once, however many replicas are up.

The map, from the ground up; an arrow never runs back (import-linter holds it):

- ``domain``   what is true. Pure: no clock, no I/O, no logging, no randomness that is not an argument.
- ``ports``    the few Protocols between loops and adapters.
- ``loops``    what goes on for ever; one ``step()`` each; talks to ports only.
- ``adapters`` what touches the world: ``kube``, ``http``, the clock.
- ``shells``   who starts it: supervisor, settings, controller, command line.
- ``queue``    what applications import: rows to do, enqueued and worked in their own process.
"""

__version__ = "0.1.0"
