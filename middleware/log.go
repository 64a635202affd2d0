package middleware

import (
	"context"
	"log/slog"
	"unicode/utf8"
)

// RequestLog is an Observer that writes one line for each request, but none
// for the quiet routes, which machines ask for all day long.
type RequestLog struct {
	log   *slog.Logger
	quiet map[string]bool
}

// NewRequestLog returns a RequestLog that leaves out the routes of the given
// patterns, but for their panics.
func NewRequestLog(log *slog.Logger, quiet ...string) *RequestLog {
	l := &RequestLog{log: log, quiet: map[string]bool{}}
	for _, pattern := range quiet {
		l.quiet[pattern] = true
	}
	return l
}

// Begin implements Observer.
func (l *RequestLog) Begin(*Exchange) {}

// End implements Observer. Failures of the server are errors, everything else
// is information: a client's mistake is no event that wakes anybody.
func (l *RequestLog) End(ex *Exchange) {
	level := slog.LevelInfo
	if ex.Status >= 500 || ex.Status == 0 {
		level = slog.LevelError
	}
	if l.quiet[ex.Route] && !ex.Panicked {
		return
	}
	ctx := context.Background()
	if !l.log.Enabled(ctx, level) {
		return
	}
	var attrs [16]slog.Attr
	line := append(attrs[:0],
		slog.String("id", ex.ID),
		slog.String("method", clip(ex.Method)),
		slog.String("path", clip(ex.Path)),
		slog.Int("status", ex.Status),
		slog.Int64("bytes_in", ex.BytesIn),
		slog.Int64("bytes_out", ex.BytesOut),
		slog.Float64("wall_ms", float64(ex.Clock.Wall().Microseconds())/1e3),
		slog.String("remote", ex.Remote),
	)
	for _, optional := range [...][2]string{
		{"request_format", ex.RequestFormat},
		{"answer_format", ex.AnswerFormat},
		{"rejection", ex.Rejection},
	} {
		if optional[1] != "" {
			line = append(line, slog.String(optional[0], optional[1]))
		}
	}
	l.log.LogAttrs(ctx, level, "request", line...)
}

// clip shortens what a client can make as long as it likes.
func clip(s string) string {
	const most = 256
	if len(s) <= most {
		return s
	}
	end := most
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "..."
}
