// Helm for tests. tools/kubernetes_environment builds it in its own module, whose go.sum lists what
// it needs; this one states the version and its checksum.
module longhaul.dev/tests/kubernetes/helm

go 1.26

require helm.sh/helm/v3 v3.20.0
