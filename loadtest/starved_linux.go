package loadtest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ownStarvation is how long the threads of this process have been ready to run
// without a core, as /proc/self/task/*/schedstat counts it; -1 if it is not
// counted.
func ownStarvation() time.Duration {
	paths, err := filepath.Glob("/proc/self/task/*/schedstat")
	if err != nil || len(paths) == 0 {
		return -1
	}
	total := time.Duration(0)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		fields := strings.Fields(string(text))
		if len(fields) < 2 {
			return -1
		}
		waited, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return -1
		}
		total += time.Duration(waited)
	}
	return total
}
