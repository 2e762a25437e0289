package redisstore

import (
	"embed"

	"github.com/budgetd/budgetd/internal/redisstore/driver"
)

//go:embed lua/*.lua
var sources embed.FS

// The scripts, one per verb. Shared texts precede their own.
var (
	mark        = script("mark")
	marker      = script("marker")
	doubt       = script("shared", "doubt")
	open        = script("shared", "entries", "open")
	grant       = script("shared", "entries", "grant")
	closing     = script("shared", "entries", "close")
	read        = script("shared", "entries", "read")
	raise       = script("shared", "raise")
	deduct      = script("shared", "counters", "deduct")
	undo        = script("shared", "entries", "counters", "undo")
	find        = script("shared", "find")
	changed     = script("shared", "entries", "changed")
	acknowledge = script("shared", "entries", "acknowledge")
	nextSlice   = script("shared", "next_slice")
	sweep       = script("shared", "sweep")
	copyRead    = script("shared", "copy_read")
	copyBegin   = script("shared", "entries", "copy_begin")
	copyAdd     = script("shared", "copy_add")
)

// script returns the script that source joins.
func script(names ...string) *driver.Script { return driver.NewScript(source(names...)) }

// source joins texts of the folder lua.
func source(names ...string) string {
	text := ""
	for _, name := range names {
		part, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // the folder is embedded
		}
		text += string(part)
	}
	return text
}
