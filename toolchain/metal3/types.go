// Package metal3 keeps the types that definitions are generated from among what this module needs.
package metal3

import _ "github.com/metal3-io/cluster-api-provider-metal3/api/v1beta2"
