package encoding

import "encoding/binary"

// flatBuffer reads one FlatBuffers buffer that nobody has verified. Every
// offset, vtable and length is held against the bytes that are there before
// it is used, and nothing is allocated.
//
// The first fault makes the buffer broken, and from then on everything in it
// reads as absent, zero or empty: callers read what they need and look at
// broken once.
//
// The layout is that of the FlatBuffers internals document: all numbers are
// little-endian, offsets to tables, strings and vectors are unsigned, 32 bits
// wide and count from their own place.
type flatBuffer struct {
	bytes  []byte
	broken bool
}

// has tells whether the n bytes from at are there.
func (f *flatBuffer) has(at, n int64) bool {
	if f.broken || at < 0 || n < 0 || at > int64(len(f.bytes))-n {
		f.broken = true
		return false
	}
	return true
}

func (f *flatBuffer) uint8(at int64) uint8 {
	if !f.has(at, 1) {
		return 0
	}
	return f.bytes[at]
}

func (f *flatBuffer) uint16(at int64) uint16 {
	if !f.has(at, 2) {
		return 0
	}
	return binary.LittleEndian.Uint16(f.bytes[at:])
}

func (f *flatBuffer) uint32(at int64) uint32 {
	if !f.has(at, 4) {
		return 0
	}
	return binary.LittleEndian.Uint32(f.bytes[at:])
}

func (f *flatBuffer) uint64(at int64) uint64 {
	if !f.has(at, 8) {
		return 0
	}
	return binary.LittleEndian.Uint64(f.bytes[at:])
}

// follow returns the place that the offset at a place leads to. Offsets only
// lead forward, so that no chain of them can come back to where it was.
func (f *flatBuffer) follow(at int64) int64 {
	offset := int64(f.uint32(at))
	if offset == 0 {
		f.broken = true
	}
	return at + offset
}

// root returns the table that the buffer is about.
func (f *flatBuffer) root() flatTable { return f.table(f.follow(0)) }

// table returns the table at a place. A table begins with the signed distance
// back to its vtable; a vtable has its own size, the table's size and, one
// for each slot, the distance of a field from the table's begin or 0.
func (f *flatBuffer) table(at int64) flatTable {
	vtable := at - int64(int32(f.uint32(at)))
	slots := int64(f.uint16(vtable))
	size := int64(f.uint16(vtable + 2))
	if slots < 4 || slots%2 != 0 || size < 4 || !f.has(vtable, slots) || !f.has(at, size) {
		f.broken = true
		return flatTable{}
	}
	return flatTable{in: f, at: at, size: size, vtable: vtable, slots: slots}
}

// flatTable is a table of a flatBuffer, or an absent one.
type flatTable struct {
	in     *flatBuffer // nil if the table is absent
	at     int64
	size   int64
	vtable int64
	slots  int64 // the vtable's size in bytes
}

func (t flatTable) exists() bool { return t.in != nil }

// place returns where the field of n bytes in a slot is, or 0 if the table
// has no such field.
func (t flatTable) place(slot int, n int64) int64 {
	entry := 4 + 2*int64(slot)
	if t.in == nil || entry+2 > t.slots {
		return 0
	}
	offset := int64(t.in.uint16(t.vtable + entry))
	if offset == 0 {
		return 0
	}
	if offset < 4 || offset+n > t.size {
		t.in.broken = true
		return 0
	}
	return t.at + offset
}

func (t flatTable) uint8(slot int) uint8 {
	if at := t.place(slot, 1); at != 0 {
		return t.in.uint8(at)
	}
	return 0
}

func (t flatTable) int16(slot int) int16 {
	if at := t.place(slot, 2); at != 0 {
		return int16(t.in.uint16(at))
	}
	return 0
}

func (t flatTable) int32(slot int) int32 {
	if at := t.place(slot, 4); at != 0 {
		return int32(t.in.uint32(at))
	}
	return 0
}

func (t flatTable) int64(slot int) int64 {
	if at := t.place(slot, 8); at != 0 {
		return int64(t.in.uint64(at))
	}
	return 0
}

func (t flatTable) table(slot int) flatTable {
	if at := t.place(slot, 4); at != 0 {
		return t.in.table(t.in.follow(at))
	}
	return flatTable{}
}

// vector returns the vector in a slot, whose elements take size bytes each.
func (t flatTable) vector(slot int, size int64) flatVector {
	at := t.place(slot, 4)
	if at == 0 {
		return flatVector{}
	}
	start := t.in.follow(at)
	n := int64(t.in.uint32(start))
	if !t.in.has(start+4, n*size) {
		return flatVector{}
	}
	return flatVector{in: t.in, at: start + 4, n: int(n), size: size}
}

// string returns the bytes of the string in a slot. They may be no UTF-8.
func (t flatTable) string(slot int) []byte {
	v := t.vector(slot, 1)
	if v.n == 0 {
		return nil
	}
	return t.in.bytes[v.at:][:v.n]
}

// flatVector is a vector of a flatBuffer, all of whose elements are there.
type flatVector struct {
	in   *flatBuffer
	at   int64
	n    int
	size int64
}

// table returns element i of a vector of offsets to tables.
func (v flatVector) table(i int) flatTable {
	return v.in.table(v.in.follow(v.at + int64(i)*v.size))
}

// int64 returns the number at an offset within element i.
func (v flatVector) int64(i int, offset int64) int64 {
	return int64(v.in.uint64(v.at + int64(i)*v.size + offset))
}
