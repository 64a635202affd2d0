package handlers

import (
	"net/http"
	"strings"

	"texttax/handlers/store"
)

// precondition is what a request demands of the current state of a dataset: RFC
// 9110, section 13.
type precondition struct {
	match     *tagList // If-Match; nil without it
	noneMatch *tagList // If-None-Match; nil without it
}

// tagList is a list of entity tags, or any: *.
type tagList struct {
	any  bool
	tags []entityTag
}

type entityTag struct {
	weak   bool
	opaque string // with its quotes
}

func parsePrecondition(header http.Header) (p precondition, err error) {
	if p.match, err = parseTags(header, "If-Match"); err != nil {
		return p, err
	}
	p.noneMatch, err = parseTags(header, "If-None-Match")
	return p, err
}

// parseTags reads a header. One that is malformed is refused: to pass over it
// would overwrite what the client wants to keep.
func parseTags(header http.Header, name string) (*tagList, error) {
	values := header[name]
	if len(values) == 0 {
		return nil, nil
	}
	rest := strings.Join(values, ",")
	if strings.Trim(rest, " \t") == "*" {
		return &tagList{any: true}, nil
	}
	list := new(tagList)
	for {
		if rest = strings.TrimLeft(rest, " \t,"); rest == "" {
			return list, nil
		}
		var tag entityTag
		rest, tag.weak = strings.CutPrefix(rest, "W/")
		end := -1
		if strings.HasPrefix(rest, `"`) {
			end = strings.IndexByte(rest[1:], '"') + 2
		}
		if end < 2 {
			break
		}
		tag.opaque, rest = rest[:end], strings.TrimLeft(rest[end:], " \t")
		list.tags = append(list.tags, tag)
		if rest != "" && rest[0] != ',' {
			break
		}
	}
	return nil, refuseField(malformedHeader, name, name+": must be * or entity tags in double quotes, joined by commas")
}

// has tells whether the list has the tag of the version, or any version will
// do. Weak tags count only by weak comparison. No version is in no list.
func (l *tagList) has(v *store.Version, weakly bool) bool {
	if v == nil || l.any {
		return v != nil
	}
	for _, t := range l.tags {
		if t.opaque == v.ETag && (weakly || !t.weak) {
			return true
		}
	}
	return false
}

// check refuses a request whose precondition fails on the current version, nil
// if there is none.
func (p precondition) check(current *store.Version) error {
	state := "there is no such dataset"
	if current != nil {
		state = "the dataset's ETag is " + current.ETag
	}
	if p.match != nil && !p.match.has(current, false) {
		return refuseField(preconditionFails, "If-Match", "If-Match: "+state)
	}
	if p.noneMatch != nil && p.noneMatch.has(current, true) {
		return refuseField(preconditionFails, "If-None-Match", "If-None-Match: "+state)
	}
	return nil
}
