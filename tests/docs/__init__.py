"""docs/ is held to the code: what can be generated is, by `python -m tests.docs`, and a test says when it is out of date."""
