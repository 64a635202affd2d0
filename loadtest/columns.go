package loadtest

import (
	"io"
	"strings"
	"unicode/utf8"
)

// WriteColumns writes a table as text: the first column to the left, all
// others to the right. A row may be shorter than others.
func WriteColumns(out io.Writer, rows [][]string) error {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			switch {
			case i == 0:
				line += cell + pad
			default:
				line += "  " + pad + cell
			}
		}
		b.WriteString(strings.TrimRight(line, " "))
		b.WriteByte('\n')
	}
	_, err := io.WriteString(out, b.String())
	return err
}
