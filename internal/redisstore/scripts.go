package redisstore

import (
	"crypto/sha1" //nolint:gosec // how Redis names scripts
	_ "embed"     // the scripts
	"encoding/hex"
	"fmt"
)

// verb names a script.
type verb int

const (
	verbOpen verb = iota
	verbGrant
	verbDeduct
	verbClose
	verbTrim
	verbDiscard
	verbLeave
	verbVoid
	verbCount // deduct, with limits
	verbUnload
	verbs
)

var (
	//go:embed lua/shared.lua
	sharedLua string
	//go:embed lua/records.lua
	recordsLua string
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
	//go:embed lua/discard.lua
	discardLua string
	//go:embed lua/leave.lua
	leaveLua string
	//go:embed lua/void.lua
	voidLua string
	//go:embed lua/limits.lua
	limitsLua string
	//go:embed lua/counters.lua
	countersLua string
	//go:embed lua/unload.lua
	unloadLua string
)

// script is a verb's text for one activation of one lane. Two activations, two lanes and two
// installations never share a SHA.
type script struct{ text, sha string }

// scriptsOf returns the scripts of an activation of a lane, whose keys begin with prefix. replid is the
// replication id that it was activated with: letters and digits.
func scriptsOf(prefix string, activation int64, replid string) (all [verbs]script) {
	// A function of its own: see limits.lua.
	counts := "local counts = (function()\n" + limitsLua + "\n" + countersLua + "\nreturn counts\nend)()\n"
	sources := [verbs]string{verbOpen: openLua, verbGrant: grantLua,
		verbDeduct: recordsLua + "\nlocal counts\n" + deductLua, verbClose: closeLua, verbTrim: trimLua, verbDiscard: discardLua,
		verbLeave:  leaveLua,
		verbVoid:   recordsLua + "\n" + voidLua,
		verbCount:  recordsLua + "\n" + counts + deductLua,
		verbUnload: counts + unloadLua}
	for v, source := range sources {
		text := fmt.Sprintf("-- activation %d of %s\nlocal lane_activation = '%d'\n"+
			"local lane_replid = '%s'\n%s\n%s",
			activation, prefix, activation, replid, sharedLua, source)
		sum := sha1.Sum([]byte(text)) //nolint:gosec // see the import
		all[v] = script{text: text, sha: hex.EncodeToString(sum[:])}
	}
	return all
}
