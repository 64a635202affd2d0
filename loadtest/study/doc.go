// Package study measures, on the machine it runs on, what text costs, what a
// boundary costs, and what is work: the tax of each format, the curve of
// echoes from one float to 150,000, and the same sweep across each boundary in
// each granularity.
//
// All trials of a round run one after the other, round after round, so that
// all meet the machine in the same moods. A figure is the median of the
// rounds, and its spread is kept.
package study
