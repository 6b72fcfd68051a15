package recording_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/koupleless/koupsandbox/fakebase/recording"
)

// FuzzRecording: a file that is read is the same when it is saved and read again, and one that is not
// is named in the error.
func FuzzRecording(f *testing.F) {
	folder := f.TempDir()
	compact := cmp.Transformer("compact", func(raw json.RawMessage) string { // Save indents
		var b bytes.Buffer
		if err := json.Compact(&b, raw); err != nil {
			return string(raw)
		}
		return b.String()
	})
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(folder, "in", "http", "one.json")
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		_, all, err := recording.Load(filepath.Join(folder, "in"))
		if err != nil {
			if !strings.Contains(err.Error(), file) {
				t.Errorf("the error names no file: %v", err)
			}
			return
		}
		for _, first := range all {
			first.Tunnel = recording.HTTP // it is a part of the name of a file
			out := filepath.Join(folder, "out")
			if err := first.Save(out, "one"); err != nil {
				t.Fatal(err)
			}
			_, saved, err := recording.Load(out)
			if diff := cmp.Diff(first, saved["http/one"], compact, cmpopts.EquateEmpty()); err != nil || diff != "" {
				t.Errorf("read again: %v (-first +second):\n%s", err, diff)
			}
		}
	})
}

// FuzzNormal: taking out what differs ends, and makes nothing longer, however often it is done.
func FuzzNormal(f *testing.F) {
	f.Fuzz(func(t *testing.T, answer string) {
		if len(answer) > 1<<12 {
			return
		}
		once := recording.Normal(answer)
		for range 3 {
			again := recording.Normal(once)
			if len(again) > len(once)+64 {
				t.Errorf("%q grows to %q", once, again)
			}
			once = again
		}
	})
}
