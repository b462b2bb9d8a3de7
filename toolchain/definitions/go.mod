// Whose published definitions (CRDs) tests hold our objects to: read from the modules' files, of which nothing is built or
// copied. go.sum holds them to their bytes.
module tidepool/toolchain/definitions

go 1.26.0

require (
	github.com/k8snetworkplumbingwg/network-attachment-definition-client v1.7.7
	sigs.k8s.io/cluster-api v1.14.2
)
