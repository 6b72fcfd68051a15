package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"

	"github.com/shirou/gopsutil/v4/cpu"
	"golang.org/x/perf/benchfmt"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/internal/version"
)

// The suffixes of benchmark units. They follow the percentile, as in p50-ms.
const (
	milliseconds = "ms"
	podsPerSec   = "Pods/s"
)

// The configuration keys of a benchmark file, in addition to the keys that the go command writes.
const (
	coresKey    = "cores"
	providerKey = "provider"
)

// Results holds the benchmark values of all runs.
type Results struct {
	config     map[string]string // goos, cpu, provider and other configuration keys
	benchmarks []*benchmark      // in the order in which they were first added
}

type benchmark struct {
	name, unit string
	values     []float64
}

// Read reads a benchmark file. It fails if the file contains no results.
func Read(file string) (*Results, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("reading benchmark results: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	results := &Results{}
	reader := benchfmt.NewReader(f, file)
	for reader.Scan() {
		if r, is := reader.Result().(*benchfmt.Result); is {
			results.add(r)
		}
	}
	if err := reader.Err(); err != nil {
		return nil, fmt.Errorf("reading benchmark results: %w", err)
	}
	if len(results.benchmarks) == 0 {
		return nil, fmt.Errorf("%s has no benchmark results; create it with: koupsandbox bench > %s", file, file)
	}
	return results, nil
}

func (r *Results) add(result *benchfmt.Result) {
	if r.config == nil {
		r.setConfig(result.Config)
	}
	for _, v := range result.Values {
		f := r.find(string(result.Name), v.Unit)
		if f == nil {
			f = &benchmark{name: string(result.Name), unit: v.Unit}
			r.benchmarks = append(r.benchmarks, f)
		}
		f.values = append(f.values, v.Value)
	}
}

func (r *Results) setConfig(config []benchfmt.Config) {
	r.config = map[string]string{}
	for _, c := range config {
		r.config[c.Key] = string(c.Value)
	}
}

// find returns the benchmark with the given name and unit, or nil if the benchmark does not exist.
func (r *Results) find(name, unit string) *benchmark {
	i := slices.IndexFunc(r.benchmarks, func(f *benchmark) bool { return f.name == name && f.unit == unit })
	if i < 0 {
		return nil
	}
	return r.benchmarks[i]
}

func configOf(ctx context.Context, status *sandbox.Status) ([]benchfmt.Config, error) {
	cpus, err := cpu.InfoWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the CPU model: %w", err)
	}
	model := ""
	if len(cpus) > 0 {
		model = cpus[0].ModelName
	}
	var config []benchfmt.Config
	for _, c := range [][2]string{
		{"goos", runtime.GOOS},
		{"goarch", runtime.GOARCH},
		{"cpu", cmp.Or(model, "unknown")},
		{coresKey, strconv.Itoa(runtime.NumCPU())},
		{providerKey, string(status.Provider)},
		{"kubernetes", status.Version},
		{"koupsandbox", cmp.Or(version.String(), "unknown")},
	} {
		config = append(config, benchfmt.Config{Key: c[0], Value: []byte(c[1]), File: true})
	}
	return config, nil
}
