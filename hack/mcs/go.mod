// The Multi-Cluster Services API, whose definitions Koinon is tested with.
// Nothing here is linked into Koinon: definitions.sh finds the files.
module koinon.dev/hack/mcs

go 1.26.0

require sigs.k8s.io/mcs-api v0.5.2
