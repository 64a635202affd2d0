package middleware

import "time"

// Spend makes the clock say that it has spent time in a phase.
func (c *Clock) Spend(p Phase, d time.Duration) {
	c.spent[p] += d
	c.entered[p] = true
	c.wall += d
}
