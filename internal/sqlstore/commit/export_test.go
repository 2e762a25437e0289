package commit

// Forms returns how many flights were written by a packet, and how many came to the locking form.
func (p *Part) Forms() (packets, locking int64) { return p.packets.Load(), p.lockings.Load() }
