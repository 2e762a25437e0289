package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// writeCSV writes a line per spot: its cost by process and in all, µs of CPU time per deduction.
func writeCSV(path string, spots []spot) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	out := csv.NewWriter(file)
	lines := [][]string{{"series", "durability", "size", "server_us", "redis_us", "mariadb_us",
		"total_us"}}
	figure := func(us float64) string { return strconv.FormatFloat(us, 'f', 2, 64) }
	for _, s := range spots {
		m := measurement{cpu: s.cost}
		lines = append(lines, []string{s.series, s.durability, strconv.Itoa(s.size),
			figure(m.us("server")),
			figure(m.us("redis")), figure(m.us("mariadb")), figure(s.total)})
	}
	return out.WriteAll(lines) // flushes
}

// plotSeries draws what a deduction costs over the size, a line per durability.
func plotSeries(path string, s series, spots []spot) error {
	p := plot.New()
	p.Title.Text = "CPU time per deduction by " + s.what
	p.X.Label.Text, p.Y.Label.Text = s.what, "µs (budgetd, Redis, MariaDB)"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Y.Min = 0
	p.Add(plotter.NewGrid())
	var lines []any
	for _, durability := range []string{"store", "ledger"} {
		var points plotter.XYs
		for _, at := range spots {
			if at.series == s.name && at.durability == durability {
				points = append(points, plotter.XY{X: float64(at.size), Y: at.total})
			}
		}
		if len(points) > 0 {
			lines = append(lines, durability+" mode", points)
		}
	}
	if err := plotutil.AddLinePoints(p, lines...); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	// Also where one size or none was measured, of which plot would make a scale that includes 0.
	p.X.Min, p.X.Max = float64(s.sizes[0]), float64(slices.Max(s.sizes))
	p.Y.Max *= 1.2
	return p.Save(16*vg.Centimeter, 9*vg.Centimeter, path)
}

// flatTable has a line per series and durability.
func flatTable(spots []spot) string {
	var b strings.Builder
	b.WriteString("| what grows | mode | µs of CPU per deduction | dearest ÷ first | allowed | met " +
		"| dearest ÷ cheapest |\n|---|---|---|--:|--:|---|--:|\n")
	for _, s := range flat {
		for _, durability := range []string{"store", "ledger"} {
			var sizes []string
			first, least, most := 0.0, 0.0, 0.0
			for _, at := range spots {
				if at.series != s.name || at.durability != durability {
					continue
				}
				if len(sizes) == 0 {
					first, least = at.total, at.total
				}
				least = min(least, at.total)
				most = max(most, at.total)
				sizes = append(sizes, fmt.Sprintf("%s: %.1f", thousands(float64(at.size)), at.total))
			}
			if len(sizes) == 0 {
				continue
			}
			met := "yes"
			if most > first*(1+s.may[durability]) {
				met = "**no**"
			}
			if len(sizes) < len(s.sizes) {
				met += fmt.Sprintf(", %d of %d sizes", len(sizes), len(s.sizes))
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %.2f | %.2f | %s | %.2f |\n", s.what, durability,
				strings.Join(sizes, ", "),
				most/first, 1+s.may[durability], met, most/least)
		}
	}
	return b.String()
}
