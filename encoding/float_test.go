package encoding

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"texttax/kernel/gbm42"
)

var randomFloats = flag.Int("random", 200_000, "how many random floats to read and write")

func TestPowersOfTenAreRoundedUpTo128Bits(t *testing.T) {
	for p := minPower; p <= maxPower; p++ {
		entry := powersOfTen[p-minPower]
		got := new(big.Int).Lsh(new(big.Int).SetUint64(entry.hi), 64)
		got.Sub(got, new(big.Int).SetUint64(entry.lo))
		if got.BitLen() != 128 {
			t.Errorf("10^%d has %d bits", p, got.BitLen())
		}
		// got - 1 < 10^p * 2^(127 - log2Power(p)) <= got
		want := big.NewRat(1, 1)
		scale := func(base int64, exponent int) {
			n := new(big.Int).Exp(big.NewInt(base), big.NewInt(int64(max(exponent, -exponent))), nil)
			if exponent < 0 {
				want.Quo(want, new(big.Rat).SetInt(n))
			} else {
				want.Mul(want, new(big.Rat).SetInt(n))
			}
		}
		scale(10, p)
		scale(2, 127-log2Power(p))
		above := new(big.Rat).SetInt(got)
		below := new(big.Rat).Sub(above, big.NewRat(1, 1))
		if want.Cmp(below) <= 0 || want.Cmp(above) > 0 {
			t.Errorf("10^%d is %#x, which is not rounded up from %s", p, got, want.FloatString(3))
		}
	}
}

func TestLogarithmsOfPowersAreRoundedDown(t *testing.T) {
	floor := func(base int64, exponent int, of int64) int {
		// The number of digits, in base of, of base^|exponent|, less one.
		power := new(big.Int).Exp(big.NewInt(base), big.NewInt(int64(max(exponent, -exponent))), nil)
		n := len(power.Text(int(of))) - 1
		if exponent < 0 {
			if new(big.Int).Exp(big.NewInt(of), big.NewInt(int64(n)), nil).Cmp(power) == 0 {
				return -n
			}
			return -n - 1
		}
		return n
	}
	for p := -400; p <= 400; p++ {
		if got, want := log2Power(p), floor(10, p, 2); got != want {
			t.Errorf("10^%d is above 2^%d, not 2^%d", p, want, got)
		}
	}
	for e := -1100; e <= 1100; e++ {
		if got, want := log10Binary(e), floor(2, e, 10); got != want {
			t.Errorf("2^%d is above 10^%d, not 10^%d", e, want, got)
		}
	}
}

// firstWithin returns the least x, not negative, for which a*x mod m is from low
// to high, or nil.
func firstWithin(a, m, low, high *big.Int) *big.Int {
	sub, mod := func(x, y *big.Int) *big.Int { return new(big.Int).Sub(x, y) }, func(x *big.Int) *big.Int { return new(big.Int).Mod(x, a) }
	ceil := func(x *big.Int) *big.Int { // x/a
		q, r := new(big.Int).QuoRem(x, a, new(big.Int))
		return q.Add(q, big.NewInt(int64(r.Sign())))
	}
	switch {
	case low.Sign() == 0:
		return new(big.Int)
	case a.Sign() == 0:
		return nil
	case new(big.Int).Lsh(a, 1).Cmp(m) > 0:
		return firstWithin(sub(m, a), m, sub(m, high), sub(m, low))
	}
	if x := ceil(low); new(big.Int).Mul(a, x).Cmp(high) <= 0 {
		return x
	}
	y := firstWithin(mod(m), a, mod(new(big.Int).Neg(high)), mod(new(big.Int).Neg(low)))
	if y == nil {
		return nil
	}
	return ceil(y.Add(y.Mul(y, m), low))
}

// nearestFloat takes a product for exact that ends in less than 2^65, below the
// 137 bits that can't be in a float or the half of its last bit. So no other
// product of 64 bits may end so. For small powers none does: the product of w
// and 10^-p is a multiple of 2^137 / 5^p, and that of 10^p one of 2^64.
func TestNoDecimalIsTooCloseToATie(t *testing.T) {
	one := big.NewInt(1)
	m := new(big.Int).Lsh(one, 137)
	high := new(big.Int).Sub(new(big.Int).Lsh(one, 65), one)
	for p := minPower; p <= 308; p++ {
		if p >= -31 && p <= 27 {
			continue
		}
		entry := powersOfTen[p-minPower]
		a := new(big.Int).Lsh(new(big.Int).SetUint64(entry.hi), 64)
		a.Sub(a, new(big.Int).SetUint64(entry.lo))
		if x := firstWithin(a, m, one, high); x != nil && x.BitLen() <= 64 {
			t.Errorf("%d * 10^%d may be rounded wrong", x, p)
		}
		if a.TrailingZeroBits() >= 137-64 {
			t.Errorf("products with 10^%d may end in nothing but zeros", p)
		}
	}
}

// checkReads compares what the JSON reader makes of numbers with strconv: the
// numbers alone, in an array, in a pretty one, and as its last element.
func checkReads(t *testing.T, texts []string) {
	t.Helper()
	inRange := texts[:0:0]
	for _, text := range texts {
		want, err := strconv.ParseFloat(text, 64)
		if errors.Is(err, strconv.ErrSyntax) {
			t.Fatalf("the test has a number that is none: %s", text)
		}
		if err == nil {
			inRange = append(inRange, text)
		} else {
			var e *Error
			err := JSON.Decode([]byte(`{"close":[1,`+text+strings.Repeat(",1", 20)+`]}`), new(Request))
			if !errors.As(err, &e) || e.Kind != Malformed || e.Field != "close" || e.Index != 1 {
				t.Errorf("%s, which is beyond float64: %v", text, err)
			}
		}
		if got, end, ok := scanFloat([]byte(text), 0); ok && (err != nil || end != len(text) || math.Float64bits(got) != math.Float64bits(want)) {
			t.Errorf("%s reads as %v up to byte %d, not as %v", text, got, end, want)
		}
	}
	for _, separator := range []string{",", ", ", ",\n    ", " ,"} {
		got := mustDecode(t, JSON, []byte(`{"close":[`+strings.Join(inRange, separator)+`]}`)).Close
		if len(got) != len(inRange) {
			t.Fatalf("%d numbers read as %d", len(inRange), len(got))
		}
		for i, text := range inRange {
			if want, _ := strconv.ParseFloat(text, 64); math.Float64bits(got[i]) != math.Float64bits(want) {
				t.Errorf("%s reads as %v, not as %v", text, got[i], want)
			}
		}
	}
}

// checkWrites compares the text of floats with that of strconv.
func checkWrites(t *testing.T, floats []float64) {
	t.Helper()
	got, i := appendJSONFloats(nil, floats)
	if i >= 0 {
		t.Fatalf("%v can't be written", floats[i])
	}
	var want []byte
	for i, v := range floats {
		want = append(append(want, "[,"[min(i, 1)]), expectedText(v)...)
	}
	want = append(want, ']')
	if !bytes.Equal(got, want) {
		for i, text := range bytes.Split(bytes.Trim(got, "[]"), []byte(",")) {
			if i >= len(floats) || string(text) != string(expectedText(floats[i])) {
				t.Fatalf("%b is written %s, not %s", floats[i], text, expectedText(floats[i]))
			}
		}
		t.Fatalf("wrong text: %.1000q", got)
	}
}

// expectedText is the number in the form of encoding/json, by strconv.
func expectedText(v float64) []byte {
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	text := strconv.AppendFloat(nil, v, format, -1, 64)
	if n := len(text); format == 'e' && string(text[n-4:n-1]) == "e-0" {
		text = append(text[:n-2], text[n-1])
	}
	if isNegativeZero(v) {
		return []byte("-0.0")
	}
	return text
}

// exact returns the decimal expansion of m * 2^e, to the last digit.
func exact(m *big.Int, e int) string {
	if e >= 0 {
		return new(big.Int).Lsh(m, uint(e)).String()
	}
	n := new(big.Int).Mul(m, new(big.Int).Exp(big.NewInt(5), big.NewInt(int64(-e)), nil)).String()
	if len(n) <= -e {
		n = strings.Repeat("0", 1-e-len(n)) + n
	}
	return n[:len(n)+e] + "." + n[len(n)+e:]
}

// halfways returns the number halfway between v, which must be positive, and
// the next float, in all its digits, and the decimals just beside it.
func halfways(v float64) []string {
	b := math.Float64bits(v)
	m, e := b&(1<<52-1), int(b>>52)
	if e > 0 {
		m += 1 << 52
	}
	e = max(e, 1) - 1075
	n := new(big.Int).SetUint64(2*m + 1)
	text := exact(n, e-1)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	// The last digit is 5 behind the point, or 0.
	last := len(text) - 1
	digits := strings.Replace(text, ".", "", 1)
	less, _ := new(big.Int).SetString(digits, 10)
	less.Sub(less, big.NewInt(1))
	lower := less.String()
	if n := len(digits) - len(lower); n > 0 {
		lower = strings.Repeat("0", n) + lower
	}
	point := strings.IndexByte(text, '.')
	lower = lower[:point] + "." + lower[point:]
	return []string{text, text + "0000", text + "0001", text[:last] + string(text[last]+1), lower, lower + "9999"}
}

// hardFloats returns powers of two and ten and what is beside them, ties, and
// floats that are known to be hard.
func hardFloats() []float64 {
	var floats []float64
	for e := -1074; e <= 1023; e++ {
		v := math.Ldexp(1, e)
		floats = append(floats, v, math.Nextafter(v, 0), math.Nextafter(v, math.Inf(1)), v*1.5, v*1.25)
	}
	for e := -323; e <= 308; e++ {
		for digit := 1; digit <= 9; digit++ {
			v, err := strconv.ParseFloat(fmt.Sprintf("%de%d", digit, e), 64)
			if err == nil {
				floats = append(floats, v, math.Nextafter(v, 0), math.Nextafter(v, 1e308))
			}
		}
	}
	// Halves and quarters of large integers, which have ties among their decimals.
	for e := 45; e <= 56; e++ {
		for i := range 40 {
			floats = append(floats, math.Ldexp(1, e)+float64(i)/4, math.Ldexp(1, e)+float64(i)/8+1e6)
		}
	}
	floats = append(floats, []float64{
		5e-324, 1e-323, 9.5e-310, 2.2250738585072011e-308, 2.2250738585072012e-308, 2.2250738585072014e-308,
		math.MaxFloat64, math.Nextafter(math.MaxFloat64, 0), 1e21, 1e22, 1e23, 8.41e21, 9.409340012568248e18,
		123456789012345680000, 999999999999999900000, 1e-6, 1e-7, 9.999999999999999e-7, 0.00001, 0.1, 0.2, 0.3,
		9007199254740991, 9007199254740993, 4503599627370496.5, 1.2, 12.25, 99.99, 4.35, 0, 2e-3, 1e15, 1e16, 1e17,
		1234567, 12345678, 123456789, 1.8014398509481984e16, 2.9802322387695312e-8, 5.684341886080802e-14, 4.940656e-318,
		1.18575755e-316, 2.989102097996e-312, 9.0608011534336e15, 4.708356024711512e18, 9.409340012568248e18, 4.1749681e-305,
	}...)
	for _, v := range floats[:len(floats):len(floats)] {
		floats = append(floats, -v)
	}
	return floats
}

func TestFloatsAreReadAndWrittenRightWhereItIsHard(t *testing.T) {
	floats := hardFloats()
	checkWrites(t, floats)

	var texts []string
	for i, v := range floats {
		texts = append(texts, strconv.FormatFloat(v, 'e', -1, 64), strconv.FormatFloat(v, 'e', 17, 64))
		if i%7 == 0 {
			texts = append(texts, strconv.FormatFloat(v, 'f', -1, 64), strconv.FormatFloat(v, 'e', 40, 64))
		}
		if v > 0 && v < math.MaxFloat64 && i%61 == 0 {
			texts = append(texts, halfways(v)...)
		}
	}
	checkReads(t, texts)
}

func TestFloatsAreReadRightFromTextsThatOthersGotWrong(t *testing.T) {
	var texts []string
	for _, text := range []string{
		"0", "0.0", "0e0", "0e999999", "0.000e-999999", "1e400", "1e-400", "1e999999999999999999999", "1e-999999999999999999999",
		"6929495644600919.5", "3.7455744005952583e15", "9007199254740993", "9007199254740993.0", "9007199254740992.999999999999",
		"9007199254740993.00000000000000000000000000000000000001", "9007199254740994.5", "9007199254740995", "1e23", "8.5e22", "8.41e21",
		"2.2250738585072011e-308", "2.2250738585072012e-308", "2.2250738585072014e-308", "2.225073858507201136057409796709131975934819546351645648023426109724822222021076945516529523908135087914149158913039621106870086438694594645527657207407820621743379988141063267329253552286881372149012981122451451889849057222307285255133155755015914397476397983411801999323962548289017107081850690630666655994938275772572015763062690663332647565300009245888316433037779791869612049497390377829704905051080609940730262937128958950003583799967207254304360284078895771796150945516748243471030702609144621572289880258182545180325707018860872113128079512233426288368622321503775666622503982534335974568884423900265498198385487948292206894721689831099698365846814022854243330660339850886445804001034933970427567186443383770486037861622771738545623065874679014086723327636718751234567890123456789012345678901e-308",
		"1.7976931348623157e308", "1.7976931348623158e308", "1.797693134862315708145274237317e308", "1.7976931348623159e308", "179769313486231580793e289",
		"179769313486231570814527423731704356798070567525844996598917476803157260780028538760589558632766878171540458953514382464234321326889464182768467546703537516986049910576551282076245490090389328944075868508455133942304583236903222948165808559332123347747979",
		"5e-324", "4.9406564584124654e-324", "2.4703282292062327e-324", "2.4703282292062328e-324", "2.47032822920623272e-324", "9.5e-310", "2e-324", "3e-324",
		"1.00000000000000011102230246251565404236316680908203125", "1.00000000000000011102230246251565404236316680908203124", "1.00000000000000011102230246251565404236316680908203126",
		"1.00000000000000033306690738754696212708950042724609375", "0.500000000000000166533453693773481063544750213623046875",
		"3.518437208883201171875e13", "62.5364939768271845828", "8.10109172351e-10", "1.50000000000000011102230246251565", "54210108624275221700372640043497085571289062500e-40",
		"1234567890123456789012345678901234567890e-20", "0.1e1", "100e-2", "12345678901234567890", "18446744073709551615", "18446744073709551616", "9999999999999999999", "10000000000000000000",
		"1090544144181609348671888949248", "1090544144181609348835077142190", "1.448997445238699", "7.2057594037927933e16", "30078505129381147446200", "1777820000000000000001",
		"94.88665103054235", "104110013277974872254e-225", "12345e23", "9e-265", "85e-037", "623e100", "3571e263", "81661e153", "920657e-023", "4603285e-024", "87575437e-309", "245540327e122", "6138508175e120", "83356057653e193",
		"619534293513e124", "2335141086879e218", "36167929443327e-159", "609610927149051e-255", "3743626360493413e-165", "94080055902682397e-242", "899810892172646163e283", "7120190517612959703e120", "25188282901709339043e-252", "308984926168550152811e-052", "6372891218502368041059e64",
		"9214843084008499", "8.9255e-22", "0.000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000012345e100",
		strings.Repeat("9", 400), "0." + strings.Repeat("0", 400) + "1", "0." + strings.Repeat("0", 400) + "1e400", "1" + strings.Repeat("0", 400) + "e-400", strings.Repeat("1", 300) + "." + strings.Repeat("3", 300), strings.Repeat("123", 100) + "e-10",
		"0.3" + strings.Repeat("0", 700), "0.3" + strings.Repeat("0", 700) + "1", "100.00000000000000000000", "00.5"[1:], "1.0", "1.00", "12345678.5", "1234567.5", "1234567", "12345678", "0.12345678", "0.1234567890123456", "0.12345678901234567", "12.345678901234567", "12.3456789012345678", "123.45678901234567", "123.456789012345678", "1234567.123456789", "1234567.1234567890", "1234567.12345678901",
	} {
		texts = append(texts, text, "-"+text)
	}
	checkReads(t, texts)
}

func TestJSONReaderTakesNothingElseForANumber(t *testing.T) {
	ones := strings.Repeat(",1", 40)
	for _, text := range []string{
		"01", "01.5", "00", "00.5", "-01.5", "-", "-.5", ".5", "1.", "1.e5", "-1.,", "1.x", "1e", "1e+", "1.5e-", "+1", "+1.5", "0x10", "1_0", "1.5.5", "1..5", "1-1", "--1", "1.5-",
		"1,,1", "", "NaN", "nul", "Infinity", "-Infinity", "1 1", "1.5 1", "1.5\x001", "\xb11.5", "1\xb1.5", "1.\xb15", "1.5\xb1", "123.4567890\xb1", "123.45678901234\xb1", "1.5/", "1.5:", "1/5", "1:5", "12345678.", "12345678.,", "1\v", "1\u00a0",
	} {
		for _, body := range []string{`{"close":[` + text + ones + `]}`, `{"close":[1,` + text + ones + `]}`, `{"close":[1` + ones + `,` + text + `]}`} {
			plain, std := JSON.Decode([]byte(body), new(Request)), json.Unmarshal([]byte(body), new(stdRequest))
			if plain == nil || std == nil {
				t.Errorf("%s: %v, encoding/json says %v", body, plain, std)
			}
		}
	}
}

// plainReaders holds the implementations of plainFloats that this build has.
var plainReaders = map[string]func(dst []float64, text []byte, p int) (n, end int){"go": plainFloatsGo}

// What plainFloats takes must be numbers, and right; what it leaves is not its
// business, but for the prices that it is made for.
func TestPlainFloatsTakesNothingButNumbers(t *testing.T) {
	for name, read := range plainReaders {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(17, 18))
			dst := make([]float64, 20)
			for range 20_000 {
				var text []byte
				for range len(dst) {
					if r.IntN(2) == 0 {
						text = strconv.AppendFloat(text, randomPrice(r), 'f', -1, 64)
					} else {
						text = appendRandomDecimal(text, r)
					}
					text = append(text, ", "[:1+r.IntN(2)]...)
				}
				for range r.IntN(4) {
					text[r.IntN(len(text))] = []byte("0123456789.,-+eE \n/:\x00\xb0\xff")[r.IntN(23)]
				}
				start := 0
				for start < len(text) {
					n, end := read(dst, text, start)
					taken := text[start:end]
					for _, v := range dst[:n] {
						number, rest, found := bytes.Cut(taken, []byte(","))
						want, err := strconv.ParseFloat(string(number), 64)
						if !found || err != nil || !json.Valid(number) || bytes.TrimSpace(number)[0] != number[0] || math.Float64bits(v) != math.Float64bits(want) {
							t.Fatalf("%q is read as %v", number, v)
						}
						taken = bytes.TrimPrefix(rest, []byte(" "))
					}
					if len(taken) > 0 {
						t.Fatalf("%q is taken for nothing", taken)
					}
					// Go on behind what was left.
					next := bytes.IndexByte(text[end:], ',')
					if next < 0 {
						break
					}
					start = end + next + 1
				}
			}
			text := []byte(strings.Repeat("101.25,99.123456789012345, -0.5,1234567,0,0.0,", 10) + strings.Repeat("x", 40))
			dst = make([]float64, 60)
			if n, end := read(dst, text, 0); n != len(dst) || end != len(text)-40 {
				t.Errorf("%d numbers of %d are read, up to byte %d of %d", n, len(dst), end, len(text)-40)
			}
		})
	}
}

// randomBits draws floats of all sizes, finite and not negative.
func randomBits(r *rand.Rand) float64 {
	return math.Float64frombits(r.Uint64N(0x7ff << 52))
}

// randomPrice draws a price of 1 to 15 decimals or, as often, of all bits.
func randomPrice(r *rand.Rand) float64 {
	v := math.Exp(r.Float64()*24 - 8)
	if decimals := r.IntN(30); decimals < 15 {
		scale := math.Pow(10, float64(decimals+1))
		v = math.Round(v*scale) / scale
	}
	return v
}

// appendRandomDecimal appends a number of up to 22 digits.
func appendRandomDecimal(dst []byte, r *rand.Rand) []byte {
	if r.IntN(4) == 0 {
		dst = append(dst, '-')
	}
	start := len(dst)
	dst = strconv.AppendUint(dst, r.Uint64()>>r.IntN(64), 10)
	if n := len(dst) - start; n > 1 && r.IntN(4) > 0 {
		point := start + 1 + r.IntN(n-1)
		dst = append(dst, 0)
		copy(dst[point+1:], dst[point:])
		dst[point] = '.'
		for range r.IntN(3) {
			dst = append(dst, byte('0'+r.IntN(10)))
		}
	}
	if r.IntN(3) == 0 {
		dst = append(dst, 'e')
		dst = strconv.AppendInt(dst, int64(r.IntN(660)-350), 10)
	}
	return dst
}

func TestRandomFloatsAreReadAndWrittenAsByStrconv(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	const chunk = 1000
	floats := make([]float64, chunk)
	for range (*randomFloats + chunk - 1) / chunk {
		text := []byte(`{"close":[`)
		for i := range floats {
			switch r.IntN(3) {
			case 0:
				floats[i] = randomBits(r)
				if r.IntN(2) == 0 {
					floats[i] = -floats[i]
				}
			case 1:
				floats[i] = randomPrice(r)
			case 2:
				for floats[i] = math.Inf(1); math.IsInf(floats[i], 0); {
					n := len(text)
					text = appendRandomDecimal(text, r)
					if floats[i], _ = strconv.ParseFloat(string(text[n:]), 64); !math.IsInf(floats[i], 0) {
						text = append(text, ',')
					} else {
						text = text[:n]
					}
				}
				continue
			}
			text = append(append(text, expectedText(floats[i])...), ',')
		}
		text = append(text[:len(text)-1], "]}"...)
		if got := mustDecode(t, JSON, text).Close; !sameBits(got, floats) {
			for i, number := range strings.Split(string(text[len(`{"close":[`):len(text)-2]), ",") {
				if math.Float64bits(got[i]) != math.Float64bits(floats[i]) {
					t.Fatalf("%s reads as %v, not as %v", number, got[i], floats[i])
				}
			}
		}
		checkWrites(t, floats)
	}
}

// FuzzJSONNumber checks the grammar of numbers against encoding/json, and
// their values against strconv.
func FuzzJSONNumber(f *testing.F) {
	for _, seed := range []string{"0", "-0.0", "100.25", "1e23", "5e-324", "9007199254740993", "01", "1.", ".5", "+1", "1e400", "123.45678901234567", "2.2250738585072011e-308"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		number := len(text) > 0 && (text[0] == '-' || text[0]-'0' < 10) && json.Valid([]byte(text)) && strings.TrimRight(text, " \t\r\n") == text
		want, wantErr := strconv.ParseFloat(text, 64)
		if got, end, ok := scanFloat([]byte(text), 0); ok && end == len(text) && (!number || wantErr != nil || math.Float64bits(got) != math.Float64bits(want)) {
			t.Fatalf("%q reads as %v; %v, %v", text, got, want, wantErr)
		}
		if text == "" || !number && (strings.ContainsAny(text, " \t\r\n,[]{}\"") || json.Valid([]byte(text))) {
			return // not one element, or one of another type
		}
		for _, tail := range []string{"", strings.Repeat(",1", 20)} {
			req := new(Request)
			err := JSON.Decode([]byte(`{"close":[`+text+tail+`]}`), req)
			if accepted := err == nil; accepted != (number && wantErr == nil) {
				t.Fatalf("%q: %v", text, err)
			}
			if err == nil && math.Float64bits(req.Close[0]) != math.Float64bits(want) {
				t.Fatalf("%q reads as %v, not as %v", text, req.Close[0], want)
			}
		}
	})
}

// FuzzJSONFloat checks the text of every float against encoding/json.
func FuzzJSONFloat(f *testing.F) {
	for _, seed := range []float64{0, 1, -1.5, 0.1, 100.25, 1e21, 1e-7, 5e-324, math.MaxFloat64, 9007199254740993, 123456789012345680000, 1125899906842624.25} {
		f.Add(math.Float64bits(seed))
	}
	f.Fuzz(func(t *testing.T, b uint64) {
		v := math.Float64frombits(b)
		want, err := json.Marshal([]float64{v, 1})
		got, refused := appendJSONFloats(nil, []float64{v, 1})
		if (err != nil) != (refused == 0) {
			t.Fatalf("%v: element %d is refused; %v", v, refused, err)
		}
		if isNegativeZero(v) {
			want = []byte("[-0.0,1]")
		}
		if err == nil && !bytes.Equal(got, want) {
			t.Fatalf("%b is written %s, not %s", v, got, want)
		}
	})
}

// BenchmarkJSONFloats measures an /echo request of the demo series in JSON:
// this package's codec against encoding/json.
func BenchmarkJSONFloats(b *testing.B) {
	req := &Request{Close: gbm42.Close()}
	body, err := JSON.Append(nil, req)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		Codec
	}{{"ours", JSON}, {"std", JSONStd}} {
		b.Run(c.name+"/encode", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			out := body
			for b.Loop() {
				if out, err = c.Append(out[:0], req); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/decode", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			in := new(Request)
			for b.Loop() {
				in.Reset(Limits{})
				if err := c.Decode(body, in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
