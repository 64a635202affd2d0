package kernel

// implementations are the filtered sweeps that this machine can run, the
// fastest last. The reference is compiled in always, beside them all.
var implementations = append([]*implementation{{"go", buildGo, filterGo, prefixGo, combine2Go, combine3Go, compareGo, findGo}}, assembly()...)

// best is the implementation that Sweep runs, chosen once.
var best = implementations[len(implementations)-1]
