// Package loadtest sends sweeps and echoes across a boundary, and tells where
// the time of each call goes.
//
// A Scenario is a Boundary (in process, HTTP over TCP or a Unix socket, frames
// over either or over shared memory, a process per call), a Format, and a
// Granularity: the same Work as one call, or as one call per combo, or as one
// call per bar. Run sends its calls on a number of connections, in the closed
// model or paced by a Pacer, and returns a Result.
//
// # What is measured
//
// A latency begins when the call was meant to begin, not when a connection was
// free for it, so that a server that stalls can't hide the calls that it kept
// from being sent. It ends when the caller has its numbers: encoding and
// decoding are part of it.
//
// Each call's time is split into phases that do not overlap and leave no gap.
// The server's own phases come from the Server-Timing header of its answer;
// Transit is the rest of the time between the first byte out and the last byte
// in, and so holds both directions, both operating systems, and the server's
// HTTP.
//
// Every answer is compared with the one that the kernel gives in this process:
// the number of trades exactly, the profit to 1e-6. Echoes must come back bit
// for bit. The comparison is outside all phases.
package loadtest
