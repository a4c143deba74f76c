"""The main job before one's eyes: `make demo-cluster`, or `python -m tests.demo` from the root of the repository.

A real API server, a counting receiver, two controllers at their default settings, four ScheduledJobs every one to three
seconds. The leader is killed, parent and child; a later one is told to end. Then the books: every tick of every job is held
against what the receiver got and what the API server has on record. Exit code 1 on any breach of the promise.
"""
