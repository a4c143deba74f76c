"""The chart in charts/soloist as people install it: rendered by a real Helm, taken by a real API server."""
