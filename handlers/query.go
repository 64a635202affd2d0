package handlers

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// parseQuery returns the query's parameters, of which only the known ones may
// be there, and each only once.
func parseQuery(r *http.Request, known ...string) (url.Values, error) {
	if r.URL.RawQuery == "" {
		return nil, nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refuse(malformedQuery, "the query can't be parsed: it is name=value pairs, percent-encoded and joined by &")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		values := query[name]
		if !slices.Contains(known, name) {
			if len(known) == 0 {
				return nil, refuse(malformedQuery, fmt.Sprintf("unknown parameter %.64q; there are none here", name))
			}
			return nil, refuse(malformedQuery, fmt.Sprintf("unknown parameter %.64q; known are %q", name, known))
		}
		if len(values) > 1 {
			return nil, refuseField(malformedQuery, name, name+": is given "+strconv.Itoa(len(values))+" times")
		}
	}
	return query, nil
}

// queryError blames the query for what is malformed in it.
func queryError(err error) error {
	why := toRefusal(err)
	if why.reason == malformedBody {
		why.reason = malformedQuery
	}
	return why
}
