package handlers

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"

	"texttax/encoding"
	"texttax/handlers/store"
	"texttax/kernel/gbm42"
	"texttax/middleware"
)

// builtin is the dataset that is always there. It is decoded when somebody
// asks for it, so that it costs nothing at start.
var builtin = sync.OnceValue(func() *store.Version {
	return &store.Version{ID: gbm42.ID, Series: gbm42.Close(), ETag: `"` + gbm42.SHA256 + `"`}
})

// dataset returns the current version of a dataset, which never changes.
func (a *API) dataset(id string) (*store.Version, error) {
	if id == gbm42.ID {
		return builtin(), nil
	}
	if v := a.config.Datasets.Get(id); v != nil {
		return v, nil
	}
	return nil, noDataset(id)
}

func noDataset(id string) error {
	return refuseField(datasetNotFound, "dataset", fmt.Sprintf("dataset: there is none called %.64q; GET /datasets lists them", id))
}

// listed is a dataset as GET /datasets shows it.
type listed struct {
	ID      string    `json:"id"`
	Bars    int       `json:"bars"`
	Bytes   int64     `json:"bytes"`
	ETag    string    `json:"etag"`
	Created time.Time `json:"created,omitzero"` // of the version; the built-in one has always been there
}

// listDatasets serves GET /datasets.
func (a *API) listDatasets(w http.ResponseWriter, r *http.Request) error {
	if _, err := parseQuery(r); err != nil {
		return err
	}
	versions := append(a.config.Datasets.List(), builtin())
	list := make([]listed, len(versions))
	for i, v := range versions {
		list[i] = listed{ID: v.ID, Bars: len(v.Series), Bytes: v.Bytes(), ETag: v.ETag, Created: v.Created}
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

// aim reads from the request which dataset it is about, and the precondition.
func aim(r *http.Request) (id string, p precondition, err error) {
	if _, err = parseQuery(r); err != nil {
		return "", p, err
	}
	if id, err = pathID(r); err != nil {
		return "", p, err
	}
	p, err = parsePrecondition(r.Header)
	return id, p, err
}

// perBar is the most bytes that a close takes in an answer: the longest float64 in
// JSON, and what joins it.
const perBar = 26

// getDataset serves GET /datasets/{id}: the series in the format that the
// client accepts, JSON if it has no wish.
func (a *API) getDataset(w http.ResponseWriter, r *http.Request) error {
	a.negotiated(w)
	id, demand, err := aim(r)
	if err != nil {
		return err
	}
	v, err := a.dataset(id)
	if err != nil {
		return err
	}
	codec, err := encoding.ForAccept(r.Header.Values("Accept"), encoding.JSON)
	if err != nil {
		return refuse(notAcceptable, err.Error())
	}
	ex := middleware.From(w)
	if err := (precondition{match: demand.match}).check(v); err != nil {
		return err
	}
	w.Header().Set("Etag", v.ETag)
	ex.Clock.Enter(middleware.Encode)
	if demand.noneMatch != nil && demand.noneMatch.has(v, true) {
		a.write(w, "", http.StatusNotModified, nil)
		return nil
	}
	ex.AnswerFormat = codec.Name()
	if codec == encoding.Octet {
		a.send(w, r, codec, encoding.LittleEndian(v.Series))
		return nil
	}
	room := reservation{memory: a.memory}
	defer room.release()
	if err := room.add(r.Context(), int64(perBar*len(v.Series)), true, ex); err != nil {
		return err
	}
	out := newBuffer(perBar * len(v.Series))
	defer out.release()
	body, err := codec.Append(out.empty(), &encoding.Request{Close: v.Series})
	if err != nil {
		return err
	}
	out.set(body)
	a.send(w, r, codec, body)
	return nil
}

// putDataset serves PUT /datasets/{id}: the body's series becomes the dataset.
// It takes the bodies that /echo takes, with prices as /sweep needs them, so
// that no sweep of a dataset can fail for its prices.
func (a *API) putDataset(w http.ResponseWriter, r *http.Request) error {
	ex := middleware.From(w)
	id, demand, err := aim(r)
	if err != nil {
		return err
	}
	switch {
	case !store.ValidID(id):
		return refuseField(invalidValue, "dataset", "dataset: an id is 1 to 64 of the characters A-Z a-z 0-9 . _ - and neither . nor ..")
	case id == gbm42.ID:
		return keepsBuiltin()
	}
	if _, partial := r.Header["Content-Range"]; partial {
		return refuseField(malformedHeader, "Content-Range", "Content-Range: a series is put whole")
	}
	codec, err := requestCodec(r, ex)
	if err != nil {
		return err
	}
	// What fails already need not be sent; what holds is checked again below,
	// with no other writer between.
	if err := demand.check(a.config.Datasets.Get(id)); err != nil {
		return err
	}
	c, err := a.decode(r.Context(), w, r, ex, codec)
	if err != nil {
		return err
	}
	defer c.release()
	series, err := c.series("PUT")
	if err != nil {
		return err
	}
	if err := checkPrices(&c.request); err != nil {
		return err
	}
	ex.Clock.Enter(middleware.Encode)
	v, replaced, err := a.config.Datasets.Put(id, series, demand.check)
	if err != nil {
		return err
	}
	a.config.Changed()
	w.Header().Set("Etag", v.ETag)
	if replaced {
		a.write(w, "", http.StatusNoContent, nil)
		return nil
	}
	w.Header().Set("Location", "/datasets/"+id)
	a.write(w, "", http.StatusCreated, nil)
	return nil
}

// deleteDataset serves DELETE /datasets/{id}.
func (a *API) deleteDataset(w http.ResponseWriter, r *http.Request) error {
	id, demand, err := aim(r)
	if err != nil {
		return err
	}
	if id == gbm42.ID {
		return keepsBuiltin()
	}
	middleware.From(w).Clock.Enter(middleware.Encode)
	err = a.config.Datasets.Delete(id, demand.check)
	a.config.Changed()
	if errors.Is(err, store.ErrNotFound) {
		return noDataset(id)
	}
	if err != nil {
		return err
	}
	a.write(w, "", http.StatusNoContent, nil)
	return nil
}

func keepsBuiltin() error {
	return refuseField(builtinDataset, "dataset", "dataset: "+gbm42.ID+" is built in, and can neither be replaced nor deleted; choose another id")
}
