package redisstore

import (
	"crypto/sha1" //nolint:gosec // how Redis names scripts
	_ "embed"     // the scripts
	"encoding/hex"
	"fmt"

	"github.com/budgetd/budgetd/bucket"
)

// verb names a script.
type verb int

const (
	verbOpen verb = iota
	verbGrant
	verbDeduct
	verbClose
	verbTrim
	verbs
)

var (
	//go:embed lua/shared.lua
	sharedLua string
	//go:embed lua/open.lua
	openLua string
	//go:embed lua/grant.lua
	grantLua string
	//go:embed lua/deduct.lua
	deductLua string
	//go:embed lua/close.lua
	closeLua string
	//go:embed lua/trim.lua
	trimLua string
)

// script is a verb's text for one activation of one lane. Two activations, two lanes and two
// installations never share a SHA.
type script struct{ text, sha string }

// scriptsOf returns the scripts of an activation of a lane.
func scriptsOf(installation string, lane bucket.Lane, activation int64) (all [verbs]script) {
	sources := [verbs]string{verbOpen: openLua, verbGrant: grantLua, verbDeduct: deductLua,
		verbClose: closeLua, verbTrim: trimLua}
	for v, source := range sources {
		text := fmt.Sprintf("-- activation %d of %s\nlocal lane_activation = '%d'\n%s\n%s",
			activation, keyPrefix(installation, lane), activation, sharedLua, source)
		sum := sha1.Sum([]byte(text)) //nolint:gosec // see the import
		all[v] = script{text: text, sha: hex.EncodeToString(sum[:])}
	}
	return all
}
