// Package ring is a connection between two processes of one machine by way of
// memory that both have mapped: a ring of bytes for each direction. It is what
// a message costs when no system call carries it.
//
// The two meet on a Unix socket. Who connects is sent a descriptor of the
// memory, which the listener has made for this connection alone. After that
// the socket carries no data: its end tells that the peer has died, and a byte
// on it wakes a peer that has gone to sleep. A side that waits first spins for
// up to 200 microseconds, since a peer at work answers within them, and for less
// where that has been in vain.
//
// # Layout
//
// The memory begins with a page of positions, those of the ring from the one
// who connected to the listener at 0, those of the other ring at 512. Each has
// four fields, 128 bytes apart, so that no two of them share a cache line or
// the pair of lines that is fetched at once:
//
//	  0  u64  tail: bytes written so far
//	128  u64  head: bytes read so far
//	256  u32  1 if the reader sleeps until there is something to read
//	384  u32  1 if the writer sleeps until there is room
//
// The bytes of the first ring follow at 4096, then those of the second. Rings
// have a power of two of bytes; byte number n is at n modulo that.
//
// The listener's first message on the socket carries the descriptor and 16
// bytes: the name "texttax", the version 1, and the size of a ring as
// little-endian u64. Positions are in the machine's own order.
//
// # Trust
//
// Nothing that the peer can write is believed. Each side keeps its own position
// to itself and only publishes it; that of the peer is checked whenever it is
// read, and one that can't be ends the connection. Bytes are copied out before
// they are looked at. The memory is sealed against a change of its size, which
// would raise SIGBUS on the other side.
//
// It works on Linux only.
package ring
