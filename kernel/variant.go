package kernel

// A Variant is one way to compute sweeps. All variants give the same bits; they
// are apart for comparisons. The zero Variant is the fastest that this machine
// can run, which is what a service wants.
type Variant struct {
	name    string
	inner   *implementation // nil for a reference
	average averager        // of the reference
}

// Variants are those that this machine can run, the plainest first:
//
//	reference            the package comment's definitions line for line
//	reference-unchecked  the same without the checks of bounds that Go adds
//	go                   the filtered sweep, its inner loops in Go
//	avx2, avx512         the same in assembly, where the processor has it
//
// The last of them is what the zero Variant is.
func Variants() []Variant {
	all := []Variant{{name: "reference", average: wma}, {name: "reference-unchecked", average: wmaUnchecked}}
	for _, impl := range implementations {
		all = append(all, filteredBy(impl))
	}
	return all
}

func filteredBy(impl *implementation) Variant {
	return Variant{name: impl.name, inner: impl, average: wma}
}

// orBest makes the zero Variant the fastest.
func (v Variant) orBest() Variant {
	if v.average == nil {
		return filteredBy(best)
	}
	return v
}

// Name is the variant's name, as in Variants.
func (v Variant) Name() string { return v.orBest().name }
