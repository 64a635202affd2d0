package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"texttax/handlers"
	"texttax/kernel"
)

// build is handlers.Build with a text form for --version.
type build handlers.Build

func (b build) String() string {
	return fmt.Sprintf("texttax %s (revision %s, %s, kernel %s)", b.Version, b.Revision, b.Go, b.Kernel)
}

// buildInfo reads from the binary what it was built of.
func buildInfo() build {
	b := build{Version: "unknown", Revision: "unknown", Go: runtime.Version(), Kernel: kernel.Implementation}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	return b
}
