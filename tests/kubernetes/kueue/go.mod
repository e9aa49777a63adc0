// Kueue's controller for tests. tools/kubernetes_environment builds it in its own module, whose
// go.sum lists what it needs; this one states the version and its checksum.
module longhaul.dev/tests/kubernetes/kueue

go 1.26.0

require sigs.k8s.io/kueue v0.19.2
