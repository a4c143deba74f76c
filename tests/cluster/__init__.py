"""A real control plane for tests: etcd, kube-apiserver and kube-controller-manager, with RBAC and TLS, up in four seconds.

There is no node: a Job is created and its Pod stays Pending. Everything else is what a cluster's API does.
Mark tests with `pytest.mark.cluster` and ask for fixtures (they come from tests/conftest.py):

    control_plane        one for the whole run, with the CRDs of manifests/crds
    namespace            a new namespace: namespace.name, namespace.path("jobs", group="batch"), namespace.ours("jobruns")
    backend              a counting HTTP backend, a process of its own
    proxy, https_proxy   faults between a client and `control_plane`
    fresh_control_plane  for a test that stops, pauses or counts: fresh_control_plane(audit=True)

To arrange and observe, use raw paths:

    api = control_plane.api()                    # admin; or api("nobody"), or api(token=…)
    api.create(namespace.ours("scheduledjobs"), {...}); api.get(path); api.find(path); api.items(path)
    api.patch(path + "/status", {...}); api.delete(path)                       # ApiError has .status and .reason
    control_plane.kubectl("get", "ns"); control_plane.apply("manifests/examples")
    until(lambda: api.find(path), what="the run is there", timeout=5, needs=[child])          # children.until

A process under test gets a kubeconfig, and is a Child, so that it never outlives the test:

    config = control_plane.kubeconfig(tmp_path / "kc", user="admin", server=proxy.server)   # or token=, token_file=
    token = control_plane.service_account_token(namespace.name, "controller")
    child = Child("controller", [sys.executable, "-m", …], log=tmp_path / "log", env={"KUBECONFIG": str(config)})
    child.start(); child.alive(); child.pause(); child.resume(); child.stop(grace=5)        # stop() alone is SIGKILL

Users are admin, nobody, those of ControlPlane(users={"bob": ["team"]}), and add_user (restarts the API server).
The server itself: stop_api(), start_api(), restart_api(), pause_api(), resume_api(), restart_controllers(…).
What it was asked: before = control_plane.requests(); (control_plane.requests() - before).total(WRITES, "jobruns"),
with WRITES from request_counts; by user and object: audit_events(), where the cluster was made with audit=True.

Faults of the wire (TLS untouched): proxy.refuse(), reset(), blackhole(), hold_requests(), hold_replies(), drop(),
drop_replies(), delay(s), close_after(n), cut(), forward(). Held bytes arrive late, dropped ones never.
Faults of one request: rule = https_proxy.on("POST", r"/jobruns", Hold(), when=lambda seen: …, times=1); rule.wait();
rule.release(). Effects are in tests.cluster.faults: Hold, HoldReply, DropReply, DelayReply, Truncate, Freeze (a watch),
and answers: UNAVAILABLE, TOO_MANY, BAD_GATEWAY, INTERNAL, CONFLICT, UNAUTHORIZED, FORBIDDEN, EXPIRED, EMPTY, refused(…).

The backend: backend.rule("/slow", delay=5), also status=, hang=, reset=, times=, kill_caller=, kill_after_reply=; backend.wait(3)
returns what was received (.at, .boot, .body, .header("Idempotency-Key")), backend.most_at_once() the largest overlap.

`python -m tests.cluster up|down|status|kubeconfig|binaries` keeps one outside of tests; `receiver` is `make receiver`. Variables: KUBEBUILDER_ASSETS,
SOLOIST_KUBERNETES_VERSION, SOLOIST_CACHE (default ~/.cache/soloist), SOLOIST_WITHOUT_CLUSTER=1 (skip instead of fail).
"""
