package main

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestTheServerGetsTheUpperHalfOfTheCores(t *testing.T) {
	for _, test := range []struct{ all, want []int }{
		{[]int{0, 1, 2, 3}, []int{2, 3}},
		{[]int{0, 1, 2, 3, 4}, []int{3, 4}},
		{[]int{1, 5, 8, 9, 12, 100}, []int{9, 12, 100}},
	} {
		var all, want unix.CPUSet
		for _, c := range test.all {
			all.Set(c)
		}
		for _, c := range test.want {
			want.Set(c)
		}
		if half, n := upperHalf(all); half != want || n != len(test.want) {
			t.Errorf("of %v it gets %d cores, %v", test.all, n, half)
		}
	}
}
