package testservers

import (
	"bytes"
	"net"
	"time"
)

const (
	readSize = 64 << 10
	// wireLength is how many packets of one direction of a connection are on the way at most.
	wireLength = 1024
)

// SetDistance makes every round trip through the proxy longer by distance: whatever arrives from
// now on is forwarded half of it later, in each direction. 0, the default, forwards at once. The
// order is kept, and nothing waits for an answer to something earlier, so the distance does not
// limit the throughput, as a longer cable does not. Connecting takes no longer: the proxy accepts a
// connection before it has one to the server.
//
// The answer to a request takes longer than the distance by what the server and the proxy take
// (0.3 to 0.6 ms for a SELECT 1 on two cores), so a measurement states the round trip that it
// measured.
func (p *Proxy) SetDistance(distance time.Duration) { p.distance.Store(int64(distance)) }

// RoundTrips returns how many commands were forwarded to a MySQL server since the proxy started,
// over all connections: one for each packet of a client that begins a command, whatever number of
// statements it has. What belongs to the handshake is not counted, nor are the commands that have
// no answer (COM_QUIT, COM_STMT_CLOSE, COM_STMT_SEND_LONG_DATA). The number means nothing for other
// servers, or with TLS.
func (p *Proxy) RoundTrips() int { return int(p.roundTrips.Load()) }

// packet is what one read has given, on its way.
type packet struct {
	data []byte
	due  time.Time
}

// packet returns a packet that is due after half of the distance and a further delay.
func (p *Proxy) packet(data []byte, delay time.Duration) packet {
	due := time.Now().Add(time.Duration(p.distance.Load())/2 + delay)
	return packet{data: bytes.Clone(data), due: due}
}

// wire returns one direction of a connection: its packets are written to the other end in their
// order, each when it is due. It ends the link when it is closed and empty, or when it cannot
// write. Without another end, nothing may be put into it.
func (p *Proxy) wire(l *link, to net.Conn) chan<- packet {
	packets := make(chan packet, wireLength)
	p.all.Go(func() {
		for one := range packets {
			time.Sleep(time.Until(one.due))
			if _, err := to.Write(one.data); err != nil {
				break
			}
		}
		p.end(l)
		for range packets { // so that nobody waits for room
		}
	})
	return packets
}

// The commands of MySQL that the server does not answer.
const (
	comQuit             = 0x01
	comStmtSendLongData = 0x18
	comStmtClose        = 0x19
)

// commands counts the commands in what a MySQL client sends, which may be cut anywhere. A packet
// has a header of three bytes of length, low byte first, and a number. The number is 0 in the first
// packet of a command, and larger in a handshake and in what continues a command. A packet of the
// largest length is continued by the next one.
type commands struct {
	header    uint32
	have      int  // bytes of the header
	left      int  // bytes of the payload that are still to come
	begins    bool // the next byte is the first one of a command
	continued bool // the last packet had the largest length
}

// count returns how many answered commands begin in the next bytes.
func (c *commands) count(data []byte) (n int64) {
	const headerSize, largest = 4, 1<<24 - 1
	for len(data) > 0 {
		if c.left == 0 {
			c.header |= uint32(data[0]) << (8 * c.have)
			data = data[1:]
			if c.have++; c.have < headerSize {
				continue
			}
			c.left = int(c.header & largest)
			c.begins = c.header>>24 == 0 && !c.continued
			c.continued = c.left == largest
			c.header, c.have = 0, 0
			continue
		}
		if c.begins {
			c.begins = false
			switch data[0] {
			case comQuit, comStmtSendLongData, comStmtClose:
			default:
				n++
			}
		}
		size := min(c.left, len(data))
		c.left -= size
		data = data[size:]
	}
	return n
}
