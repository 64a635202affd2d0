// Package kernel computes backtest sweeps: one close series, many combos of
// averaging windows, and for each combo the profit of a stop-and-reverse
// strategy. Everything here is arithmetic on slices; nothing knows of HTTP or
// of body formats.
//
// # Arithmetic
//
// The order of every operation is part of the contract, because the strategy
// acts on the sign of a difference that is often nothing but rounding.
//
//   - WMA(x, p)[i] is the sum over j = 0..p-1 of x[i-p+1+j]*(j+1), added left
//     to right from 0, divided by p*(p+1)/2. Each product is rounded to float64
//     before it is added: no fused multiply-add. It is NaN for i < p-1 and
//     wherever the window holds a NaN.
//   - HMA = WMA(2*WMA(x, hma_half) - WMA(x, hma_full), hma_smooth).
//   - HMA3 = WMA(3*WMA(x, hma3_third) - WMA(x, hma3_half) - WMA(x, hma3_full),
//     hma3_full), the subtractions from left to right.
//
// Go may fuse a*b + c into one rounding on arm64, and on amd64 with
// GOAMD64=v3. An explicit conversion forbids it, so products here are written
// float64(a*b) + c throughout.
//
// # Strategy
//
// From bar 0 to the last: where both averages are not NaN, the side is +1 if
// HMA3 > HMA and -1 if HMA3 < HMA; equal averages change nothing. The first
// side opens a position at that bar's close. When the side changes, the trade
// is booked as pnl += side*(close/entry - 1)*100 - fee*100 for the old side,
// and a position of the new side is entered at the same close. A position that
// is open after the last bar is not booked; it is reported as the open side.
//
// # Implementations
//
// The reference (reference.go) is these definitions line for line. Sweep
// decides most bars by a linear filter with a proven error bound instead
// (filter.go), over tiles of bars (tile.go, blocked.go), and what the bound
// leaves open by the reference's own arithmetic (exact.go); then it trades on
// the sides (play.go). The inner loops are in Go, AVX2 and AVX-512 (simd_*),
// the last two written by the generator in asmgen and left out under the build
// tag purego. All give the reference's bits for every series; windows beyond
// the filters, and very short series, are left to the reference itself.
//
// Nothing depends on addresses, alignment, the number of workers or
// GOMAXPROCS: the same input gives the same bits.
package kernel
