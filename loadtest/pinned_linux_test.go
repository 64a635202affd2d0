package loadtest

import (
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// onOneCore starts a command that may use one core only.
func onOneCore(t *testing.T, core int, command *exec.Cmd) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, pinned unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	pinned.Set(core)
	if err := unix.SchedSetaffinity(0, &pinned); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("the affinity of a thread can't be set here: %v", err)
		}
		t.Skipf("the affinity of a thread can't be set here: %v", err)
	}
	err := command.Start() // inherits it
	if err := unix.SchedSetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestAGeneratorWithoutACoreSaysSo pins a generator to a core that others keep
// busy, and asks more of it than it can do.
func TestAGeneratorWithoutACoreSaysSo(t *testing.T) {
	var usable unix.CPUSet
	if err := unix.SchedGetaffinity(0, &usable); err != nil {
		t.Fatal(err)
	}
	core := 0
	for !usable.IsSet(core) {
		core++
	}
	for range 2 {
		spin := exec.Command(os.Args[0])
		spin.Env = append(os.Environ(), role+"=spin", "GOMAXPROCS=1")
		onOneCore(t, core, spin)
		t.Cleanup(func() {
			_ = spin.Process.Kill()
			_ = spin.Wait()
		})
	}
	var out, complaint strings.Builder
	generator := exec.Command(os.Args[0])
	generator.Env = append(os.Environ(), role+"=generate", addressVariable+"=http://"+serve(t, serveCall).Address)
	generator.Stdout, generator.Stderr = &out, &complaint
	onOneCore(t, core, generator)
	if err := generator.Wait(); err != nil {
		t.Fatalf("%v: %s", err, &complaint)
	}
	var r Result
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	s := r.Self
	if !s.Bound || s.ScheduleLag.Count == 0 || s.CPUSeconds == 0 {
		t.Errorf("the generator says of itself %+v", s)
	}
	var summary strings.Builder
	if err := WriteSummary(&summary, &r); err != nil || !strings.Contains(summary.String(), "THE GENERATOR WAS THE BOTTLENECK") {
		t.Errorf("%v:\n%s", err, &summary)
	}
	t.Logf("lag p99 %v s, %v of the core, starved %v: %q", s.ScheduleLag.P99, s.CPUShare, s.Starved, s.Warnings)
}
