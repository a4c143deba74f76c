"""Without Kubernetes: real processes over a real PostgreSQL, the embedded one among them."""
