"""How much there is to do in one queue, as a value: what is scaled by and what people look at."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """At one moment of the database's clock. Every row that is not finished is in one of the four counts.

    ``oldest_due`` is for how many seconds the one that waits longest could have been had, None where none waits.
    ``whole`` is False where there were more rows than it is worth to count: the counts are then at least so many.
    """

    ready: int
    scheduled: int
    in_flight: int
    dead: int
    oldest_due: float | None
    whole: bool
