// node-problem-detector for tests. tools/kubernetes_environment builds it in its own module, whose
// go.sum lists what it needs; this one states the version and its checksum.
module longhaul.dev/tests/kubernetes/node-problem-detector

go 1.26.0

require k8s.io/node-problem-detector v1.34.0
