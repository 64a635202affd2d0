package handlers

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"

	"texttax/encoding"
	"texttax/kernel/gbm42"
	"texttax/middleware"
)

// dataset is a preloaded series. It never changes. What it holds is made when
// somebody asks for it, so that the built-in one costs nothing at start.
type dataset struct {
	bars   int
	series func() []float64
	etag   func() string // strong: the sha256 of the little-endian floats
}

// datasets are the preloaded series by id.
type datasets map[string]*dataset

func builtin() datasets {
	return datasets{gbm42.ID: {
		bars:   gbm42.Bars,
		series: gbm42.Close,
		etag:   sync.OnceValue(func() string { return etag(gbm42.Close()) }),
	}}
}

func etag(series []float64) string {
	raw, _ := encoding.Octet.Append(nil, &encoding.Request{Close: series}) // octets can say any series
	sum := sha256.Sum256(raw)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

func (d datasets) get(id string) (*dataset, error) {
	if set, ok := d[id]; ok {
		return set, nil
	}
	return nil, refuseField(datasetNotFound, "dataset", fmt.Sprintf("dataset: there is none called %.64q; GET /datasets lists them", id))
}

func (d datasets) count() int { return len(d) }

func (d datasets) bytes() int64 {
	sum := int64(0)
	for _, set := range d {
		sum += 8 * int64(set.bars)
	}
	return sum
}

// listed is a dataset as GET /datasets shows it.
type listed struct {
	ID    string `json:"id"`
	Bars  int    `json:"bars"`
	Bytes int    `json:"bytes"`
	ETag  string `json:"etag"`
}

// listDatasets serves GET /datasets.
func (a *API) listDatasets(w http.ResponseWriter, r *http.Request) error {
	if _, err := parseQuery(r); err != nil {
		return err
	}
	list := make([]listed, 0, a.datasets.count())
	for id, set := range a.datasets {
		list = append(list, listed{ID: id, Bars: set.bars, Bytes: 8 * set.bars, ETag: set.etag()})
	}
	slices.SortFunc(list, func(a, b listed) int { return strings.Compare(a.ID, b.ID) })
	body, err := json.Marshal(list)
	if err != nil {
		return err
	}
	a.write(w, "application/json", http.StatusOK, append(body, '\n'))
	return nil
}

// pathID returns the id in the path. chi matches the path as it was sent if
// that differs from its standard encoding, so that %2F does not end an id, and
// else the decoded path.
func pathID(r *http.Request) (string, error) {
	id := chi.URLParam(r, "id")
	if r.URL.RawPath == "" {
		return id, nil
	}
	id, err := url.PathUnescape(id)
	if err != nil {
		return "", refuse(notFound, "the path can't be unescaped")
	}
	return id, nil
}

// getDataset serves GET /datasets/{id}: the series in the format that the
// client accepts, JSON if it has no wish.
func (a *API) getDataset(w http.ResponseWriter, r *http.Request) error {
	a.negotiated(w)
	if _, err := parseQuery(r); err != nil {
		return err
	}
	id, err := pathID(r)
	if err != nil {
		return err
	}
	set, err := a.datasets.get(id)
	if err != nil {
		return err
	}
	codec, err := encoding.ForAccept(r.Header.Values("Accept"), encoding.JSON)
	if err != nil {
		return refuse(notAcceptable, err.Error())
	}
	ex := middleware.From(w)
	ex.AnswerFormat = codec.Name()
	ex.Clock.Enter(middleware.Encode)
	out := newBuffer(16 * set.bars)
	defer out.release()
	body, err := codec.Append(out.empty(), &encoding.Request{Close: set.series()})
	if err != nil {
		return err
	}
	out.set(body)
	w.Header().Set("Etag", set.etag())
	a.send(w, r, codec, body)
	return nil
}
