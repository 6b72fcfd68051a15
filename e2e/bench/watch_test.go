package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestVigil(t *testing.T) {
	begin := time.Now()
	v := newVigil()
	for _, renewal := range []struct {
		name   string
		second int
	}{{"a", 0}, {"b", 5}, {"a", 40}, {"b", 46}, {"a", 50}} {
		v.renewal(renewal.name, begin.Add(time.Duration(renewal.second)*time.Second), 40*time.Second)
	}
	if diff := cmp.Diff(map[string]bool{"b": true}, v.missed); diff != "" {
		t.Errorf("missed (-want +got):\n%s", diff)
	}
	if v.longest != 41*time.Second {
		t.Errorf("longest %s, want 41s", v.longest)
	}
}
