package supervise

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"
)

// Record is a run record: it identifies a process and is stored on disk.
type Record struct {
	// Name is the name of the component.
	Name string `json:"name"`
	// PID is the process ID.
	PID int `json:"pid"`
	// Start is the start time of the process. PID and Start together identify the process. The format of Start
	// depends on the operating system.
	Start     string    `json:"start"`
	StartedAt time.Time `json:"startedAt"`
	// Command is the path of the binary, followed by its arguments.
	Command []string `json:"command"`
	// StopSignal, StopTimeout and Group are the values of the same fields of Spec.
	StopSignal  int           `json:"stopSignal"`
	StopTimeout time.Duration `json:"stopTimeoutNanoseconds"`
	Group       bool          `json:"group,omitempty"`
	// Running reports whether the recorded process was running when the record was read. It is not stored.
	Running bool `json:"-"`
}

const recordSuffix = ".json"

var namePattern = regexp.MustCompile(`^[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?$`)

func validName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("invalid component name %q; use letters, digits, dots and dashes", name)
	}
	return nil
}

func newRecord(spec Spec, r *run) Record {
	sig, ok := spec.StopSignal.(syscall.Signal)
	if !ok {
		sig = syscall.SIGTERM
	}
	return Record{
		Name:        spec.Name,
		PID:         r.process.Pid,
		Start:       r.start,
		StartedAt:   r.startedAt,
		Command:     append([]string{spec.Path}, spec.Args...),
		StopSignal:  int(sig),
		StopTimeout: spec.stopTimeout(),
		Group:       spec.Group,
	}
}

// RecordSelf writes a run record for the calling process. The record remains after the process has exited.
func RecordSelf(dir, name string) error {
	if err := validName(name); err != nil {
		return err
	}
	u, err := inspect(os.Getpid())
	if err != nil {
		return err
	}
	return writeRecord(dir, Record{
		Name: name, PID: os.Getpid(), Start: u.start, StartedAt: time.Now(), Command: os.Args,
		StopSignal: int(syscall.SIGTERM), StopTimeout: Spec{}.stopTimeout(),
	})
}

// writeRecord writes a run record, replacing an existing record atomically.
func writeRecord(dir string, r Record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating the directory for run records: %w", err)
	}
	path := filepath.Join(dir, r.Name+recordSuffix)
	err = writeSynced(path+".new", data)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("writing the run record: %w", err)
	}
	return nil
}

// writeSynced writes a file and syncs it to disk. Without the sync, the file could be empty after a power failure.
func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func removeRecord(dir, name string) error {
	err := os.Remove(filepath.Join(dir, name+recordSuffix))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the run record: %w", err)
	}
	return nil
}

// Records returns the run records in dir, in the order in which the processes started. If some records are
// unreadable, it returns the other records and an error. A missing directory contains no records.
func Records(dir string) ([]Record, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the run records: %w", err)
	}
	var records []Record
	var errs []error
	for _, e := range entries {
		if e.IsDir() || filepath.Ext(e.Name()) != recordSuffix {
			continue
		}
		r, err := readRecord(filepath.Join(dir, e.Name()))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		records = append(records, r)
	}
	slices.SortStableFunc(records, func(a, b Record) int { return a.StartedAt.Compare(b.StartedAt) })
	return records, errors.Join(errs...)
}

func readRecord(path string) (Record, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Record{}, fmt.Errorf("reading the run record: %w", err)
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, fmt.Errorf(
			"run record %s is damaged (%w); make sure that its process has ended, then remove the file", path, err)
	}
	if r.Name+recordSuffix != filepath.Base(path) || r.PID <= 1 {
		return Record{}, fmt.Errorf("run record %s has a wrong component name or no valid PID; remove the file", path)
	}
	r.Running = isRunning(r.PID, r.Start)
	return r, nil
}

// CleanStale stops the recorded processes that are still running, in reverse order of their start, and removes all
// run records. It skips the calling process. It blocks until the processes have exited, and returns their records. It
// kills a process that has not exited after its stop timeout, or when ctx ends.
func CleanStale(ctx context.Context, dir string) ([]Record, error) {
	records, err := Records(dir)
	errs := []error{err}
	var stopped []Record
	for _, r := range slices.Backward(records) {
		if r.PID == os.Getpid() && r.Running {
			continue
		}
		ended, err := r.stop(ctx)
		if err == nil {
			err = removeRecord(dir, r.Name)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("stopping process %d of %s from an earlier run: %w", r.PID, r.Name, err))
			continue
		}
		if ended {
			stopped = append(stopped, r)
		}
	}
	return stopped, errors.Join(errs...)
}

// stop stops the recorded process, blocks until it has exited, and reports whether the process was running.
func (r Record) stop(ctx context.Context) (bool, error) {
	p, err := findProcess(r.PID, r.Start)
	if errors.Is(err, errNoProcess) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = p.Release() }()

	// The process is not a child of this process, so it has to be polled.
	gone, quit := make(chan struct{}), make(chan struct{})
	defer close(quit)
	go func() {
		defer close(gone)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for isRunning(r.PID, r.Start) {
			select {
			case <-tick.C:
			case <-quit:
				return
			}
		}
	}()
	sig := cmp.Or(syscall.Signal(r.StopSignal), syscall.SIGTERM)
	return true, endProcess(ctx, p, r.Group, gone, sig, r.StopTimeout)
}
