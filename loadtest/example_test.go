package loadtest_test

import (
	"context"
	"fmt"

	"texttax/loadtest"
)

// Two sweeps of 80 combos in this process, with nothing between caller and
// kernel: what every boundary is compared with.
func ExampleRun() {
	work, err := loadtest.Demo(80)
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := loadtest.Run(context.Background(), loadtest.Plan{
		Scenario: loadtest.Scenario{Boundary: loadtest.InProcess, Granularity: loadtest.Chunky},
		Work:     work,
		Count:    2,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Scenario, result.Answered(), result.Latency.P50 > 0)
	// Output: in-process chunky 2 true
}
